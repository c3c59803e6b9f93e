"""What learners of two players learn, against exact sets of games: `python benchmarks/safety.py --games`.

Each line trains one learner, in this process on one thread, and measures three things of it.

    the set       {V >= 0} against the exact set of the sampled-time game in which the disturbance answers the control,
                  one step later, on a grid of 121 nodes a side
    survives      share of 4,000 initial states with V >= 0 from which the controller stays safe for 200 steps against:
                  own      the disturbance that has learned with it
                  fresh    a best response to the controller as it is, trained for as many steps
                  exact    the disturbance that is worst in the exact value of the next state
    keeps         share of the initial states in the exact set from which it stays safe against the exact one
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from sekai.safety.learners import resolve_learner
from sekai.safety.learners.response import best_response
from sekai.safety.oracle import Grid, compare_sets
from sekai.safety.systems import DoubleIntegrator, System
from sekai.safety.tensor import SafetyTensorEnv
from sekai.safety.truth import truth_of

STARTS, STEPS = 4000, 200
IOU, FALSE_SAFE, SURVIVES = 0.85, 0.01, 0.98


class Line(NamedTuple):
    """One line of the table: a system, an algorithm, environment steps, slots and options of the learner."""

    name: str
    system: System
    algorithm: str
    steps: int
    slots: int
    options: dict[str, Any]


SYSTEMS = {
    "force-0.25": DoubleIntegrator(force_bound=0.25),
    "force-0.5": DoubleIntegrator(force_bound=0.5),
    "drift-0.5": DoubleIntegrator(drift_bound=0.5),
}
#: a drift takes long to bring about what it can: a longer horizon than that of the defaults, which goes on at timeouts
LONG = {"gamma": 0.995, "bootstrap_on_timeout": True, "failure_value": -0.7}
SMALL = {"policy_kwargs": {"net_arch": [64, 64]}}
LEARNERS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "ppo-defaults": ("ppo", 800_000, 64, {}),
    "ppo": ("ppo", 800_000, 256, {"n_steps": 50, "n_epochs": 10, "batch_size": 640, **LONG}),
    "sac-defaults": ("sac", 150_000, 64, SMALL),
    "sac": ("sac", 300_000, 64, {**SMALL, **LONG}),
}
#: what the drift takes of PPO: a controller of little noise, whose value is nearly that of what it does without any,
#: and a disturbance that goes on searching
QUIET = {
    **LEARNERS["ppo"][3],
    "failure_value": -0.5,
    "policy_kwargs": {"net_arch": [128, 128], "log_std_init": -1.0},
    "disturbance_kwargs": {"log_std_init": 0.0},
}
LINES = [
    *(Line(f"{system}-{name}", made, *what) for system, made in SYSTEMS.items() for name, what in LEARNERS.items()),
    Line("drift-0.5-ppo-quiet", SYSTEMS["drift-0.5"], "ppo", 1_000_000, 256, QUIET),
]


def survives(learner: Any, system: System, states: Any, answer: Callable[[Any, Any], Any]) -> Any:
    """Whether the controller stays safe from each state `(N, S)`, bool `(N,)`."""
    failed = np.zeros(len(states), bool)
    for _ in range(STEPS):
        controls = np.asarray(learner.predict(system.observe(states).astype(np.float32), deterministic=True)[0])
        states = system.step(states, controls.astype(np.float64), answer(states, controls))
        failed |= system.g(states) < 0
    return ~failed


def worst_of(system: System, truth: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The disturbance that leads to the least exact value."""
    assert system.disturbance is not None
    choices = system.disturbance.points()

    def answer(states: Any, controls: Any) -> Any:
        values = [truth(system.step(states, np.asarray(controls, np.float64), choice)) for choice in choices]
        return choices[np.argmin(values, axis=0)]

    return answer


def run(line: Line, seed: int) -> dict[str, float]:
    """Train and measure one line."""
    options = {key: dict(value) if isinstance(value, dict) else value for key, value in line.options.items()}
    system, truth = line.system, truth_of(line.system)
    cls: Any = resolve_learner("avoid", line.algorithm, players=2)
    learner = cls("MlpPolicy", env_of(line, seed), seed=seed, device="cpu", **options)
    began = time.perf_counter()
    learner.learn(line.steps)
    seconds = time.perf_counter() - began

    grid = Grid.around(system, 121, margin=0.1)
    alive = system.g(grid.states) >= 0
    learned = learner.predict_value(grid.states.astype(np.float32)) >= 0
    sets = compare_sets(learned & alive, (truth(grid.states) >= 0) & alive, weights=grid.cells)

    response = best_response(learner, env_of(line, seed + 100), mode="avoid", steps=line.steps, seed=seed + 100)
    starts = system.start(np.random.default_rng(seed).random((STARTS, system.state_size)))
    certified = learner.predict_value(starts.astype(np.float32)) >= 0
    answers = {
        "own": learner.opponents(system)["current"],
        "fresh": response.opponents(system)["current"],
        "exact": worst_of(system, truth),
    }
    stays = {name: survives(learner, system, starts, answer) for name, answer in answers.items()}
    found = {name: float(safe[certified].mean()) if certified.any() else 0.0 for name, safe in stays.items()}
    keeps = float(stays["exact"][truth(starts) >= 0].mean())
    return {**sets._asdict(), **found, "keeps": keeps, "seconds": seconds}


def env_of(line: Line, seed: int) -> SafetyTensorEnv:
    """The environment of two players."""
    return SafetyTensorEnv(line.slots, line.system, disturbance="player", seed=seed)


def table(only: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Print the table as it comes."""
    torch.set_num_threads(1)
    print("line                    seed    IoU false-safe  missed    own  fresh  exact  keeps      s")
    for line in LINES:
        for seed in seeds if not only or line.name in only else ():
            found = run(line, seed)
            met = found["iou"] >= IOU and found["false_safe"] <= FALSE_SAFE and found["fresh"] >= SURVIVES
            print(
                f"{line.name:23} {seed:4} {found['iou']:6.3f} {found['false_safe']:10.4f} {found['missed']:7.3f} "
                f"{found['own']:6.3f} {found['fresh']:6.3f} {found['exact']:6.3f} {found['keeps']:6.3f} "
                f"{found['seconds']:6.0f}  {'met' if met else 'NOT MET'}",
                flush=True,
            )
