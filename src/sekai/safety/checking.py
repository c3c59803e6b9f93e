"""`check_safety_env`: what is wrong with the margins of an environment, said before a learner learns from them.

Jumps. With `d_t = |m_t - m_{t-1}|` of one margin within episodes, a step is called a jump where

    d_t > JUMP_TIMES * (90 % quantile of all d)     and     d_t > JUMP_SHARE * (largest - smallest margin seen)

of at least `JUMP_ROWS` differences. The quantile forgives what is fast everywhere; the range forgives a margin that
stands still most of the time. A sign that is given for a margin (1, 1, 1, -1), a special value for failures, and an
angle that wraps round are found so.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from sekai.safety.chain import declared
from sekai.safety.exploring import Row, play
from sekai.safety.margins import TARGET_KEY, check_g_range
from sekai.safety.refusals import action_problems, reward_problems
from sekai.spaces.checks import whole_number
from sekai.testing.calls import reporting
from sekai.testing.problems import Problem, Problems
from sekai.vector import VecEnv

JUMP_TIMES, JUMP_SHARE, JUMP_ROWS = 10.0, 0.25, 20


def check_safety_env(env: Any, *, steps: int = 1000, seed: int = 0) -> list[Problem]:
    """Look for what makes a safety learner's set wrong; the contract is in `sekai.safety.contract`.

    Checked are, with random actions that are each held for a while: that g and l are finite floats; that g < 0 ends an
    episode by termination, and nothing else does but a success, l >= 0; that l comes with every step or with none; g
    outside the declared `g_range`; layers that change the reward, and actions without bounds, as `require_margins`
    does. Warnings are for margins that jump (see the module), and for what random play has not shown: a failure, the
    target.

    Args:
        env: an environment of sekai or gymnasium, or a `sekai.VecEnv`. It is reset and stepped, and not closed.
        steps: how many to take, with a vector environment in each slot.
        seed: of the environment and of the actions.

    Returns:
        The problems, of each rule the first, with the step at which it was met; an empty list where there are none.

    Example:
        >>> env = MarginWrapper(gymnasium.make("Pendulum-v1"), g=lambda state: 1.0 - abs(state.env.state[0]))
        >>> check_safety_env(env)
        []
    """
    steps = whole_number("steps", steps, minimum=1)
    problems = Problems()
    if not isinstance(env, (gymnasium.Env, VecEnv)):
        problems.add(
            "type",
            f"{env!r} is a {type(env).__name__}.",
            "Give an environment or a sekai.VecEnv (of gymnasium's vector environments: from_gymnasium_vector(env)).",
        )
        return problems.found
    with reporting(problems):
        for rule, found in (("reward layer", reward_problems(env)), ("action space", action_problems(env))):
            for seen, fix in found:
                problems.add(rule, f"{seen[0].upper()}{seen[1:]}", fix)
        provides_l, g_range, own_ends = (_one(declared(env, name)) for name in ("provides_l", "g_range", "own_ends"))
        margins = _Margins(problems, provides_l, g_range, keeps_ends=own_ends == "keep")
        for step, rows in play(env, problems, steps, seed):
            for row in rows:
                margins.look(step, row)
        margins.conclude(steps)
    return problems.found


def _one(values: list[tuple[int | None, Any]]) -> Any:
    """What the first sub-environment declares; None where none does."""
    return values[0][1] if values else None


class _Difference(NamedTuple):
    size: float
    step: int
    whose: str
    before: float
    after: float


class _Channel:
    """One margin as it was seen: its range, and how it changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.low, self.high = math.inf, -math.inf
        self.differences: list[_Difference] = []
        self._before: dict[int | None, float] = {}  # of the episode that each slot is in

    def see(self, step: int, row: Row, value: float | None) -> None:
        """Take in the margin of a row, None where it has none that can be used."""
        before = self._before.pop(row.slot, None)
        if value is None:
            return
        self.low, self.high = min(self.low, value), max(self.high, value)
        if before is not None:
            self.differences.append(_Difference(abs(value - before), step, row.whose, before, value))
        if not (row.terminated or row.truncated):
            self._before[row.slot] = value

    def jump(self) -> tuple[_Difference, float] | None:
        """The first jump, and the 90 % quantile of the differences."""
        sizes = [each.size for each in self.differences]
        if len(sizes) < JUMP_ROWS:
            return None
        usual = float(np.quantile(sizes, 0.9))
        least = max(JUMP_TIMES * usual, JUMP_SHARE * (self.high - self.low))
        return next(((each, usual) for each in self.differences if each.size > least), None)


class _Margins:
    """The rules, over all rows."""

    def __init__(self, problems: Problems, provides_l: bool | None, g_range: Any, *, keeps_ends: bool) -> None:
        self.problems, self.provides_l, self.keeps_ends = problems, provides_l, keeps_ends
        self.g_range = None if g_range is None else check_g_range(g_range)
        self.g, self.l = _Channel("g"), _Channel("l")
        self.failed: dict[int | None, int] = {}  # step of the failure in the episode that each slot is in
        self.with_l = False
        self.without_l: tuple[int, str] | None = None  # the first row that has none

    def look(self, step: int, row: Row) -> None:
        """Hold one row to the rules."""
        g = self._margin(row, "g", row.g, "The reward")
        has_l = TARGET_KEY in row.info
        l = self._margin(row, "l", row.info[TARGET_KEY], f"info[{TARGET_KEY!r}]") if has_l else None  # noqa: E741
        self.with_l = self.with_l or has_l
        if not has_l and self.without_l is None:
            self.without_l = step, row.whose
        if has_l and self.provides_l is False:
            self.problems.add(
                "l declared",
                f"{row.whose}provides_l is False, and the info has {TARGET_KEY!r}.",
                "Declare provides_l = True, or leave l out: an avoid environment has none.",
            )
        self.g.see(step, row, g)
        self.l.see(step, row, l)
        self._check_end(step, row, g, l)

    def _margin(self, row: Row, name: str, value: Any, what: str) -> float | None:
        """A margin as a float; None, and a problem, where it is none."""
        if not isinstance(value, (float, np.floating)):
            shape = f", shape {value.shape}" if isinstance(value, np.ndarray) else ""
            self.problems.add(
                f"{name} type",
                f"{row.whose}{what} is {value!r} ({type(value).__name__}{shape}).",
                f"Return the margin {name} as one float, float({name}).",
            )
            return None
        if not math.isfinite(value):
            self.problems.add(
                f"{name} finite",
                f"{row.whose}{what} is {float(value)}.",
                "A margin is a finite number: find what makes it, and bound the margin where it has no limit.",
            )
            return None
        return float(value)

    def _check_end(self, step: int, row: Row, g: float | None, l: float | None) -> None:  # noqa: E741
        problems, whose = self.problems, row.whose
        earlier = self.failed.pop(row.slot, None)
        if earlier is not None:
            shown = "no number" if g is None else f"{g:.4g}"
            problems.add(
                "after failure",
                f"{whose}The episode goes on after its failure at step {earlier}, now with g = {shown}.",
                "Terminate in the step that fails: what follows would leak into the values before.",
            )
        if g is None:
            return
        if self.g_range is not None and not self.g_range[0] <= g <= self.g_range[1]:
            problems.add(
                "g range",
                f"{whose}g is {g:.4g}, outside the declared g_range {self.g_range}.",
                "Declare the range that g has: failure values are computed from it.",
            )
        if g < 0 and not row.terminated:
            flags = "truncated and not terminated" if row.truncated else "not terminated"
            problems.add("failure", f"{whose}g is {g:.4g}, and the step is {flags}.", "Terminate where g < 0.")
        if g >= 0 and row.terminated and not (self.keeps_ends or (l is not None and l >= 0)):
            target = "" if l is None else f" and l {l:.4g}"
            problems.add(
                "termination",
                f"{whose}The step is terminated, and g is {g:.4g}{target}.",
                "Let g be negative where the environment fails, and l >= 0 where it succeeds; end by truncated what is "
                "neither.",
            )
        if (g < 0 or earlier is not None) and not (row.terminated or row.truncated):
            self.failed[row.slot] = step if earlier is None else earlier

    def conclude(self, steps: int) -> None:
        """What only all rows together show."""
        problems = self.problems
        if (self.with_l or self.provides_l) and self.without_l is not None:
            problems.step, whose = self.without_l
            reason = "other steps have it" if self.with_l else "provides_l is True"
            problems.add(
                "l missing",
                f"{whose}The info has no {TARGET_KEY!r}, and {reason}.",
                "Give l with every step of a reach-avoid environment, the last of an episode included.",
            )
        for channel in (self.g, self.l):
            self._check_jumps(channel)
        problems.step = None
        if self.g.low >= 0 and self.g.high > -math.inf:
            problems.add(
                "no failure",
                f"In {steps} steps g was never below 0; it was between {self.g.low:.4g} and {self.g.high:.4g}.",
                "Check that the failure set can be reached and that g is negative in it.",
                "warning",
            )
        if -math.inf < self.l.high < 0:
            problems.add(
                "no target",
                f"In {steps} steps l was never 0 or more; it was between {self.l.low:.4g} and {self.l.high:.4g}.",
                "Check that it can be reached and that l is positive in it; random play may just not get there.",
                "warning",
            )

    def _check_jumps(self, channel: _Channel) -> None:
        found = channel.jump()
        if found is None:
            return
        jump, usual = found
        self.problems.step = jump.step
        self.problems.add(
            f"{channel.name} jumps",
            f"{jump.whose}{channel.name} went from {jump.before:.4g} to {jump.after:.4g} in one step, and 90 % of its "
            f"changes are at most {usual:.4g}.",
            "A margin is best a distance that changes continuously, also into a failure; a sign or a special value "
            "does not say how close it is.",
            "warning",
        )
