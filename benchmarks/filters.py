"""What filters keep, and what they cost: `python benchmarks/filters.py` (about four minutes on one thread).

Exact: a mass between two walls is pushed to one of them and at random by turns, filtered by the exact value of the
sampled-time system; nothing may fail, whatever the integrator. Learned: the value of a short SafetyPPO run filters,
with the threshold at which the certified set and its edge keep a risk (`certify`). A task policy of Stable-Baselines3,
which wants to be close to one wall, is run with and without that filter from the same states, and so is one that was
trained inside it, which has never learned to keep safe. Wanted: failures within the risk, and 0.9 of the return of the
policy trained unfiltered on the runs that it survives unfiltered.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO

from sekai.compat import to_sb3
from sekai.safety.binomial import clopper_pearson
from sekai.safety.calibration import Plan
from sekai.safety.certify import certify
from sekai.safety.envs import SafetyVecEnv
from sekai.safety.filters import (
    BestOf,
    Blend,
    FilteredEnv,
    Intervention,
    NextValue,
    Project,
    RolloutMonitor,
    Shield,
    SystemModel,
    policy_of,
    value_of,
)
from sekai.safety.learners import SafetyPPO
from sekai.safety.oracle import sampled_value
from sekai.safety.systems import DoubleIntegrator
from sekai.spaces import Box

SPACE = Box(-1.0, 1.0, (1,), np.float32)
SLOTS, ROUNDING = 1000, 1e-9
#: where the task policy wants to be, m; the wall is at 1
GOAL = 0.9


def safe_starts(system: DoubleIntegrator, count: int) -> NDArray[np.float64]:
    """States of the safe set, spread evenly."""
    drawn = system.start(np.random.default_rng(0).random((3 * count, 2)))
    kept: NDArray[np.float64] = drawn[np.asarray(sampled_value(system, drawn)) >= 1e-6][:count]
    return kept


# ---- the exact value ---------------------------------------------------------------------------


def exact_line(name: str, shield: Shield, system: DoubleIntegrator, steps: int) -> str:
    """Failures and interventions of so many filtered steps."""
    starts = safe_starts(system, 20 * SLOTS).tolist()

    def start(slot: int, episode: int) -> dict[str, Any]:
        return {"state": starts[(slot + SLOTS * episode) % len(starts)]}

    vec = SafetyVecEnv(SLOTS, system, autoreset_options=start)
    env = FilteredEnv(vec, shield, states=lambda: vec.states)
    env.reset(seed=0, options=[start(slot, 0) for slot in range(SLOTS)])
    rng, failed, intervened = np.random.default_rng(1), 0, 0
    rounds, began = max(1, steps // SLOTS), time.perf_counter()
    for k in range(rounds):
        result = env.step(rng.uniform(-1, 1, (SLOTS, 1)) if k % 2 else np.ones((SLOTS, 1)))
        failed += int((result.rewards < 0).sum())
        intervened += int(np.sum(result.infos.part("intervened", np.arange(SLOTS)).values))
    took = (time.perf_counter() - began) / rounds / SLOTS
    return f"{name:26}{rounds * SLOTS:10,}{failed:10}{intervened / rounds / SLOTS:12.3f}{took * 1e6:12.2f}"


def exact_lines(steps: int) -> None:
    """The table of exact filters."""
    print(f"{'exact filter':26}{'steps':>10}{'failures':>10}{'intervenes':>12}{'us a step':>12}")
    ways: list[tuple[str, Intervention | None, int]] = [
        ("replace", None, steps),
        ("blend", Blend(), steps // 5),
        ("project, 9 candidates", Project(np.linspace(-1, 1, 9)[:, None]), steps // 5),
    ]
    for integrator in ("zoh", "euler", "semi-implicit"):
        system = DoubleIntegrator(integrator=integrator)
        monitor = NextValue(system, partial(sampled_value, system))
        brake = BestOf(monitor, system.control.points())
        for name, intervention, count in ways if integrator == "zoh" else ways[:1]:
            shield = Shield(monitor, brake, SPACE, intervention=intervention, threshold=ROUNDING)
            print(exact_line(f"{integrator}, {name}", shield, system, count), flush=True)
    system = DoubleIntegrator()
    rollouts = RolloutMonitor(SystemModel(system), full_brake, at_rest, steps=60)
    print(exact_line("zoh, imagined rollouts", Shield(rollouts, full_brake, SPACE), system, steps // 20), flush=True)


def full_brake(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """To a stop within the step, or as fast as can be."""
    return np.clip(-states[:, 1:] / DoubleIntegrator().dt, -1, 1)


def at_rest(states: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Between the walls, and as good as at rest."""
    return (abs(states[:, 1]) <= 1e-6) & (abs(states[:, 0]) <= 1 - 1e-6)


# ---- a learned value ---------------------------------------------------------------------------


class Chase(SafetyVecEnv):
    """The reward is how close to the goal the mass is, 1 there and 0 two metres away; a failure ends the episode."""

    def _step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        _, terminated, truncated, infos = super()._step(actions)
        return closeness(self.states), terminated, truncated, infos


def closeness(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """The reward of the task."""
    return 1 - abs(states[:, 0] - GOAL) / 2


class Runs(NamedTuple):
    """Runs from the same states, each until it fails.

    Attributes:
        returns: of the task, `(N,)`.
        failed: bool `(N,)`.
        intervened: share of the steps in which the filter did.
    """

    returns: NDArray[np.float64]
    failed: NDArray[np.bool_]
    intervened: float


def run(
    policy: Any, states: NDArray[np.float64], system: DoubleIntegrator, shield: Shield | None, steps: int = 200
) -> Runs:
    """Run a policy of states, with a filter or without."""
    n = len(states)
    returns, alive, intervened, lived = np.zeros(n), np.ones(n, bool), 0, 0
    if shield is not None:
        shield.begin(np.ones(n, bool))
    for _ in range(steps):
        actions = np.asarray(policy(states), np.float64)
        if shield is not None:
            decision = shield.filter(states, actions)
            actions = decision.actions.astype(np.float64)
            intervened += int((decision.intervened & alive).sum())
        lived += int(alive.sum())
        states = system.step(states, actions)
        alive &= system.g(states) >= 0
        returns += closeness(states) * alive
    return Runs(returns, ~alive, intervened / max(lived, 1))


def task_policy(vec: Any, steps: int, seed: int) -> Any:
    """A PPO of Stable-Baselines3 that was trained on the task."""
    model = PPO("MlpPolicy", to_sb3(vec), seed=seed, device="cpu", n_steps=128, batch_size=1024, gamma=0.98)
    model.learn(steps)
    return lambda states: model.predict(np.asarray(states, np.float32), deterministic=True)[0]


def learned_lines(train: int, task_steps: int, risk: float, seed: int) -> None:
    """Train, calibrate, and the table of task policies with and without the filter."""
    system = DoubleIntegrator()
    vec = SafetyVecEnv(64, system)
    learner = SafetyPPO(
        "MlpPolicy", vec, seed=seed, device="cpu", failure_value=-1.0, n_steps=64, batch_size=512
    ).learn(train)
    value, fallback = value_of(learner, system), policy_of(learner, system)
    certificate = certify(learner, system, risk=risk, plan=Plan(seed=seed + 1))
    if certificate.threshold is None or certificate.edge is None:
        print(f"Nothing is certified at a risk of {risk}: {certificate.reason}")
        return
    threshold, edge = certificate.threshold, certificate.edge

    def shield() -> Shield:
        return Shield(NextValue(system, value), fallback, SPACE, threshold=threshold)

    starts = system.start(np.random.default_rng(seed + 2).random((12_000, 2)))
    exact_share = float((np.asarray(sampled_value(system, starts)) >= 0).mean())
    promised = value(starts) >= threshold
    print(f"\nlearned value, {train:,} steps: threshold {threshold:.3f} for a risk of {risk}; it promises")
    share = promised.mean() / exact_share
    print(f"{share:.3f} of the area of the exact set; P(fail) at its edge is at most {edge.at_most:.4f}")
    starts = starts[promised][:3000]
    inner = Chase(64, system)
    filtered_training = FilteredEnv(inner, shield(), states=lambda: inner.states)
    policies = {
        "full speed to the wall": lambda states: np.ones((len(states), 1)),
        "trained unfiltered": task_policy(Chase(64, system), task_steps, seed),
        "trained inside the filter": task_policy(filtered_training, task_steps, seed),
    }
    free = {name: run(policy, starts, system, None) for name, policy in policies.items()}
    wanted = free["trained unfiltered"]
    survived = ~wanted.failed
    print(f"{'policy':28}{'fails free':>11}{'filtered':>10}{'at most':>9}{'intervenes':>12}{'return':>8}")
    for name, policy in policies.items():
        kept = run(policy, starts, system, shield())
        bound = clopper_pearson(int(kept.failed.sum()), len(starts)).high
        share = kept.returns[survived].sum() / wanted.returns[survived].sum()
        print(
            f"{name:28}{free[name].failed.mean():11.4f}{kept.failed.mean():10.4f}{bound:9.4f}{kept.intervened:12.3f}"
            f"{share:8.3f}",
            flush=True,
        )
    print("return: filtered, over that of the policy trained unfiltered on the runs that it survives unfiltered")


def main() -> None:
    """Print the tables as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of the first exact filter")
    parser.add_argument("--train", type=int, default=400_000, help="steps of the safety learner")
    parser.add_argument("--task-steps", type=int, default=300_000, help="steps of each task policy")
    parser.add_argument("--risk", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    exact_lines(given.steps)
    learned_lines(given.train, given.task_steps, given.risk, given.seed)


if __name__ == "__main__":
    main()
