"""What safety learners learn, against the exact sets: `python benchmarks/safety.py` (about an hour on two cores).

Each line trains one learner on one task, in this process on one thread, and measures its certificate as
`sekai.safety.certificates` does: on a grid of 121 nodes a side over the initial states and a tenth beyond, against the
exact value of the sampled-time system, one step later; and by 4,000 rollouts. `--only NAME` runs one line; `--games`
runs the lines of two players, see `games.py` beside this file.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import games
import torch

from sekai.safety.certificates import CertificateReport, evaluate_certificate
from sekai.safety.learners import resolve_learner
from sekai.safety.training import RunConfig, make_env
from sekai.safety.truth import truth_of

SMALL = {"net_arch": [64, 64]}
EULER = {"integrator": "euler"}


class Line(NamedTuple):
    """One line of the table.

    Attributes:
        name: of the line.
        task, algorithm, mode: what learns what.
        steps: environment steps.
        task_options, options: arguments of the task and of the learner beyond the defaults.
        iou, false_safe: what is wanted at least, and at most; None where nothing is.
    """

    name: str
    task: str
    algorithm: str
    mode: str
    steps: int
    task_options: dict[str, Any]
    options: dict[str, Any]
    iou: float | None = None
    false_safe: float | None = None


DI, TOUCH, REST = (f"safety/DoubleIntegrator{target}-v0" for target in ("", "Touch", "Rest"))
FLOOR, ORDER = "safety/DrawdownFloor-v0", "safety/BudgetExecution-v0"
PENDULUM, DUBINS = "safety/LinearPendulum-v0", "safety/DubinsHighTurn-v0"
SHORT = {"failure_value": -1.0, "n_steps": 64, "batch_size": 512}
#: eight times the gradient steps of the defaults
MORE = {"n_epochs": 10, "batch_size": 160}
FALLING = {"gamma": 0.995, "failure_value": -0.3, **MORE}
REACH = {"gae_lambda": 1.0, "bootstrap_on_timeout": True, **MORE}
LINES = (
    Line("ppo-400k-defaults", DI, "ppo", "avoid", 400_000, EULER, {}),
    Line("ppo-400k", DI, "ppo", "avoid", 400_000, EULER, SHORT, 0.77, 0.01),
    Line("ppo-1.6M-defaults", DI, "ppo", "avoid", 1_600_000, EULER, {}),
    Line("ppo-1.6M", DI, "ppo", "avoid", 1_600_000, EULER, {"failure_value": -0.7}, 0.92, 0.005),
    Line("sac-150k-defaults", DI, "sac", "avoid", 150_000, EULER, {}, 0.83, 0.01),
    Line("sac-150k", DI, "sac", "avoid", 150_000, EULER, {"policy_kwargs": SMALL}, 0.83, 0.01),
    Line("sac-600k", DI, "sac", "avoid", 600_000, EULER, {"policy_kwargs": SMALL}, 0.94),
    Line("touch-ppo-defaults", TOUCH, "ppo", "reach-avoid", 800_000, {}, {}, 0.88, 0.01),
    Line("rest-ppo-defaults", REST, "ppo", "reach-avoid", 800_000, {}, {}),
    Line("rest-ppo", REST, "ppo", "reach-avoid", 800_000, {}, REACH, 0.88, 0.01),
    Line("touch-sac", TOUCH, "sac", "reach-avoid", 150_000, {}, {"policy_kwargs": SMALL}, 0.88, 0.01),
    Line("rest-sac-150k", REST, "sac", "reach-avoid", 150_000, {}, {"policy_kwargs": SMALL}),
    Line("rest-sac", REST, "sac", "reach-avoid", 600_000, {}, {"policy_kwargs": SMALL}, 0.88, 0.01),
    Line("pendulum-ppo-defaults", PENDULUM, "ppo", "avoid", 800_000, {}, {}),
    Line("pendulum-ppo", PENDULUM, "ppo", "avoid", 800_000, {}, FALLING, 0.88, 0.01),
    Line("dubins-high-ppo-defaults", DUBINS, "ppo", "reach-avoid", 800_000, {}, {}),
    Line("dubins-high-ppo", DUBINS, "ppo", "reach-avoid", 800_000, {}, REACH, 0.80, 0.01),
    Line("drawdown-ppo-defaults", FLOOR, "ppo", "avoid", 400_000, {}, {}),
    Line("drawdown-ppo", FLOOR, "ppo", "avoid", 400_000, {}, {"failure_value": -0.1}, 0.85, 0.01),
    Line("order-ppo-defaults", ORDER, "ppo", "reach-avoid", 400_000, {}, {}),
    Line("order-ppo-1.6M-defaults", ORDER, "ppo", "reach-avoid", 1_600_000, {}, {}, 0.85, 0.01),
)


def run(line: Line, seed: int) -> tuple[CertificateReport, float]:
    """Train and measure; the report, and the seconds of training."""
    config = RunConfig(
        task=line.task,
        algorithm=line.algorithm,
        mode=line.mode,
        seed=seed,
        task_options=line.task_options,
        learner_options=line.options,
    )
    env = make_env(config)
    cls: Any = resolve_learner(line.mode, line.algorithm)
    options = {key: dict(value) if isinstance(value, dict) else value for key, value in line.options.items()}
    learner = cls("MlpPolicy", env, seed=seed, device="cpu", **options)
    started = time.perf_counter()
    learner.learn(line.steps)
    seconds = time.perf_counter() - started
    system = env.vec.unwrapped.system
    return evaluate_certificate(learner, system, truth_of(system)), seconds


def main() -> None:
    """Print the table as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[line.name for line in (*LINES, *games.LINES)])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--games", action="store_true", help="the lines of two players")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.games:
        games.table(given.only, given.seeds)
        return
    print("line                       seed    IoU false-safe  missed  keeps P(fail|V>=0)      s")
    for line in LINES:
        if given.only and line.name not in given.only:
            continue
        for seed in given.seeds:
            report, seconds = run(line, seed)
            sets = report.sets
            met = (line.iou is None or sets.iou >= line.iou) and (
                line.false_safe is None or sets.false_safe <= line.false_safe
            )
            bar = f"  {'met' if met else 'NOT MET'}: {line.iou}, {line.false_safe}"
            wanted = "" if line.iou is None else bar
            print(
                f"{line.name:26} {seed:4} {sets.iou:6.3f} {sets.false_safe:10.4f} {sets.missed:7.3f} "
                f"{report.policy_keeps:6.3f} {report.fails_if_certified:12.4f} {seconds:6.0f}{wanted}",
                flush=True,
            )


if __name__ == "__main__":
    main()
