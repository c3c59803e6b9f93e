"""The environment of `soak.py`, and what it is compared with: one `SyncVecEnv` for the slots of each worker.

A call that is interrupted, or takes too long, was executed by some workers and not by others. The reference then keeps
both possibilities of each worker, as copies; the rows that come next decide.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import sekai
from sekai import RowKind
from sekai.core.slots import Phase
from sekai.vector.infos import same_value

BOOM, DIE = 5, 6
COLUMNS = ("observations", "rewards", "terminated", "truncated", "kind", "ended")
Options = dict[str, Any] | None


class Mismatch(AssertionError):
    """A row that no history of calls explains."""


class Coded(sekai.Env[Any, Any]):
    """The observation is `(slot, episode, t, draw)`, padded with `t`; the reward of step `t` is `10 * t + action`.

    It reuses its observation and its info. Infos vary: a key that comes and goes, and now and then a long text.

    Args:
        slot: of the vector environment.
        length: steps of an episode.
        ending: "terminated", "truncated" or "both".
        width: numbers in an observation, at least 4.
    """

    def __init__(self, slot: int, length: int, ending: str, width: int) -> None:
        self.slot, self.length, self.ending = slot, length, ending
        self.observation_space = sekai.Box(-1e12, 1e12, (width,), np.float64)
        self.action_space = sekai.Discrete(10)
        self.episode, self.t, self.draw = -1, 0, 0
        self._observation = np.zeros(width)
        self._info: dict[str, Any] = {"deep": {"t": -1}}

    def check_options(self, options: Options) -> None:
        """Refuse a first step beyond the end."""
        if (options or {}).get("at", 0) > 10**5:
            raise ValueError(f"slot {self.slot} begins too late")

    def reset(self, *, seed: Any = None, options: Options = None) -> sekai.ResetResult:
        """Options: `at` (first `t`), `fail` (raise), `state` (go on where another one was)."""
        self._set_rng(seed)
        options = options or {}
        if options.get("fail"):
            raise ValueError(f"slot {self.slot} cannot reset")
        if "state" in options:
            self.length, self.episode, self.t, self.draw, self.rng.bit_generator.state = options["state"]
        else:
            self.episode += 1
            self.t = options.get("at", 0)
            self.draw = int(self.rng.integers(10**12))
        return sekai.ResetResult(*self._emit())

    def step(self, action: Any) -> sekai.StepResult:
        """Count; `BOOM` raises, `DIE` ends the process."""
        if action == BOOM:
            raise ValueError(f"slot {self.slot} went boom")
        if action == DIE:
            os._exit(3)
        self.t += 1
        end = self.t >= self.length
        observation, info = self._emit()
        return sekai.StepResult(
            observation,
            10.0 * self.t + int(action),
            end and self.ending != "truncated",
            end and self.ending != "terminated",
            info,
        )

    def _emit(self) -> tuple[Any, dict[str, Any]]:
        self._observation[:] = self.t
        self._observation[:4] = (self.slot, self.episode, self.t, self.draw)
        self._info["t"] = self._info["deep"]["t"] = self.t
        self._info.pop("odd", None)
        if self.t % 5 == 4:
            self._info["odd"] = "x" * (70_000 if self.draw % 50 == 0 else self.draw % 50)
        return self._observation, self._info

    def where(self) -> int:
        """The process it lives in."""
        return os.getpid()

    def state(self) -> Any:
        """What `reset(options={"state": ...})` takes."""
        return self.length, self.episode, self.t, self.draw, self.rng.bit_generator.state


class Call(NamedTuple):
    """One call, for any backend.

    Attributes:
        actions: of a step; None in a reset.
        seeds, options, mask: of a reset, one entry per slot.
    """

    actions: Any = None
    seeds: Any = None
    options: Any = None
    mask: Any = None

    def of(self, lo: int, hi: int) -> Call:
        """The part of it that concerns some slots."""
        return Call(*(None if part is None else part[lo:hi] for part in self))

    def on(self, vec: Any) -> Any:
        """The result, or the exception."""
        try:
            if self.actions is not None:
                return vec.step(self.actions)
            return vec.reset(seed=self.seeds, options=self.options, mask=self.mask)
        except Exception as error:
            return error

    def moves(self, vec: Any) -> Any:
        """The slots that it moves, bool `(N,)`."""
        return self.mask if self.actions is None else vec.phase != Phase.FROZEN


class Share:
    """The slots `[lo, hi)` of one worker.

    Attributes:
        possible: what the worker may be now, one `SyncVecEnv` each; at least one, unless `dying`.
        dying: its process has been killed, and the caller has not been told.
        disturbed: since then, a call was interrupted or failed; so what it holds is anybody's guess.
    """

    def __init__(self, lo: int, hi: int, vec: Any) -> None:
        self.lo, self.hi, self.possible = lo, hi, [vec]
        self.dying = self.disturbed = False

    @property
    def rows(self) -> slice:
        """Its rows in a batch."""
        return slice(self.lo, self.hi)

    def returned(self, call: Call, result: Any) -> None:
        """The call has returned these rows."""
        part = call.of(self.lo, self.hi)
        problems = [self._problem(part.on(vec), result) for vec in self.possible]
        kept = [vec for vec, problem in zip(self.possible, problems, strict=True) if problem is None]
        if not kept:
            raise Mismatch(f"slots {self.lo} to {self.hi - 1}: {problems}")
        self.possible = kept

    def raised(self, call: Call, rank: int, text: str) -> None:
        """The call has raised what sub-environment `rank` raised."""
        part, kept, outcomes = call.of(self.lo, self.hi), [], []
        for vec in self.possible:
            outcome = _not_shown(part, vec)
            outcomes.append(outcome)
            slot = self._blamed(outcome)
            if (slot == rank and str(outcome) in text) if self.lo <= rank < self.hi else slot > rank:
                kept.append(vec)
        if not kept:
            raise Mismatch(f"slots {self.lo} to {self.hi - 1}: {text!r} was raised, expected one of {outcomes}")
        self.possible = kept

    def _blamed(self, outcome: Any) -> float:
        """The slot that an exception names, infinite where there is none; -1: it asked for a reset first."""
        if not isinstance(outcome, Exception):
            return float("inf")
        if isinstance(outcome, sekai.ResetRequired):
            return -1
        return next(slot for slot in range(self.lo, self.hi) if f"slot {slot} " in str(outcome))

    def unseen(self, call: Call, lost: Any, *, executed: bool | None) -> None:
        """The result of the call was not seen.

        Args:
            call: it.
            lost: `lost_rows` of the vector environment, afterwards.
            executed: whether the worker has executed it, None: it may have.
        """
        part, before = call.of(self.lo, self.hi), self.possible
        if executed is False:
            return
        after = before if executed else copy.deepcopy(before)
        for vec in after:
            _not_shown(part, vec)
        if not executed:
            for vec in before:
                vec.lose_rows(lost[self.rows])
            self.possible = _distinct([*before, *after])

    def _problem(self, own: Any, result: Any) -> str | None:
        """How rows differ from those of a candidate."""
        if isinstance(own, Exception):
            return f"expected {own!r}"
        names = COLUMNS if hasattr(own, "kind") else ("observations", "dones")
        for name in names:
            mine, its = getattr(own, name), getattr(result, name)[self.rows]
            if not np.array_equal(mine, its):
                return f"{name} are {its[..., :4].tolist()}, expected {mine[..., :4].tolist()}"
        infos = [result.infos[slot] for slot in range(self.lo, self.hi)]
        return None if same_value(list(own.infos), infos) else f"infos are {infos}, expected {list(own.infos)}"

    def told(self, call: Call, result: Any) -> bool:
        """Check rows of a worker that was killed; whether the caller has been told."""
        told = [result.infos[slot].get("worker_lost", False) for slot in range(self.lo, self.hi)]
        kind = getattr(result, "kind", None)
        if kind is None:  # in a reset only those outside the mask are told
            expected = [not masked for masked in call.mask[self.rows]]
            _require(told == expected, f"after a loss, worker_lost is {told}, expected {expected}")
            return True
        _require(all(told) == any(told), f"some slots of one worker were lost: {told}")
        if not told[0]:
            return False
        _require((kind[self.rows] == RowKind.LOST).all(), f"kinds after a loss: {kind[self.rows]}")
        if not self.disturbed:
            flags = [getattr(result, name)[self.rows] for name in ("terminated", "truncated", "ended", "rewards")]
            _require(not np.any(flags), f"flags and rewards after a loss: {flags}")
            codes = result.observations[self.rows, :3].tolist()
            expected = [[slot, 0, codes[slot - self.lo][2]] for slot in range(self.lo, self.hi)]
            _require(codes == expected and max(row[2] for row in codes) <= 1, f"rows after a loss: {codes}")
        return True


def _not_shown(call: Call, vec: Any) -> Any:
    """Make a call of which nobody sees the rows; the result, or the exception."""
    lost = vec.lost_rows | call.moves(vec)
    outcome = call.on(vec)
    vec.lose_rows(lost)
    return outcome


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise Mismatch(what)


def _distinct(possible: Sequence[Any]) -> list[Any]:
    """Without those that are in the same state."""
    found: dict[str, Any] = {}
    for vec in possible:
        states = [(env.state() if env._np_random is not None else None) for env in vec.envs]
        found.setdefault(repr((states, vec.phase.tolist(), vec.lost_rows.tolist())), vec)
    return list(found.values())


def reference(
    factories: Sequence[Callable[[], Any]], mode: str, options: Callable[[int, int], Options] | None
) -> sekai.SyncVecEnv:
    """A `SyncVecEnv` of some slots."""
    return sekai.SyncVecEnv(factories, autoreset=mode, autoreset_options=options)
