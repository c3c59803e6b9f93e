"""The example learns what it should, and fails where it is made to run on from one episode into the next."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.collect import Decision, Fragment

torch = pytest.importorskip("torch")
from examples import recurrent_ppo as example  # noqa: E402  # it imports torch

ROOT = Path(__file__).resolve().parents[2]
TARGET = 0.95
#: transitions, room for six evaluations; a run as it should be reaches the target at the second or third
BUDGET = 240_000


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As the command has it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_the_command_reaches_a_lower_bar_within_a_minute(mode: str) -> None:
    command = [sys.executable, "examples/recurrent_ppo.py", "--mode", mode, "--seconds", "60", "--target", "0.8"]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(rf"{mode}, seed 0: (\d+\.\d)% of answers right \(target 80%\)", last)
    assert found, last
    assert float(found[1]) >= 80.0


def test_a_target_that_is_missed_is_told_by_the_exit_code(capsys: Any, one_thread: None) -> None:
    assert example.main(["--seconds", "0", "--target", "0.8"]) == 1
    assert re.search(r"same_step, seed 0: \d\d\.\d% of answers right \(target 80%\)\n$", capsys.readouterr().out)


class NeverReset(example.LSTMPolicy):
    """Goes on with the state that it left, and not with the fresh one that it is given where an episode begins."""

    left: Any = None

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        first = self.left is None or episode_start.all()  # of a collector's life, or an evaluation's
        decision = super().act(observations, state if first else self.left, episode_start)
        self.left = decision.state
        return decision


def rates(policy: type[example.LSTMPolicy], seed: int, mode: str = "same_step") -> list[float]:
    """Success rates of a run, one for each evaluation, until the target is reached or the budget is spent."""
    torch.manual_seed(seed)
    settings = example.Settings()
    run = example.train(policy(settings.hidden), settings, mode=mode, target=TARGET, seconds=3600.0, seed=seed)
    found = []
    for fragments, (_, rate, transitions) in enumerate(run, 1):
        if fragments % settings.evaluate_every == 0:
            found.append(rate)
        if transitions >= BUDGET:
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_it_reaches_the_target_within_the_budget(mode: str, seed: int, one_thread: None) -> None:
    assert rates(example.LSTMPolicy, seed, mode)[-1] >= TARGET


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_memory_that_is_not_reset_fails(mode: str, seed: int, one_thread: None) -> None:
    """In next_step mode the row that only resets makes the corridor longer, from which a little can be guessed."""
    assert max(rates(NeverReset, seed, mode)) < (0.8 if mode == "same_step" else 0.93)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_value_mask_as_trace_mask_fails(seed: int, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """Returns run on over a truncation: into the next episode, whose refund seems to be what a wrong answer earns."""

    def value_mask(fragment: Fragment) -> Any:
        mask = fragment.bootstrap.copy()
        mask[:-1] &= fragment.valid[1:]  # `gae` refuses to go on into anything else
        return mask

    monkeypatch.setattr(Fragment, "trace", property(value_mask))
    found = rates(example.LSTMPolicy, seed)
    assert max(found) < 0.8
    assert np.mean(found[-2:]) < 0.45, "worse than without memory: it has learned to be wrong"
