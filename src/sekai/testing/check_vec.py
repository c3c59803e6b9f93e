"""`check_vec_env`: what is wrong with a backend, a native environment or a vector wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from sekai.core import AutoresetMode, RowKind
from sekai.core.snapshot import snapshot
from sekai.spaces import concatenate, iterate
from sekai.spaces.checks import whole_number
from sekai.testing.calls import Stopped, called, frozen_statistics, on_a_loop_of_its_own, reporting, without_a_loop
from sekai.testing.check import Episode, check_endings
from sekai.testing.problems import Problem, Problems
from sekai.testing.samples import check_observation
from sekai.vector import VecEnv, VecStepResult, VecWrapper
from sekai.vector.infos import same_value
from sekai.wrappers.masks import flatten_mask, gymnasium_mask

_MODES = {
    AutoresetMode.SAME_STEP: {RowKind.STEP, RowKind.TERMINATED, RowKind.TRUNCATED},
    AutoresetMode.NEXT_STEP: {RowKind.STEP, RowKind.TERMINATED, RowKind.TRUNCATED, RowKind.RESET},
    AutoresetMode.DISABLED: {RowKind.STEP, RowKind.TERMINATED, RowKind.TRUNCATED, RowKind.FROZEN},
}


def check_vec_env(
    vec: Any, *, steps: int = 500, seed: int = 0, progress: Callable[[int], None] | None = None
) -> list[Problem]:
    """Look for what a learner, a collector or a wrapper would trip over.

    Checked are the shapes and dtypes of every result; observations, the last ones of episodes included, against the
    space of one sub-environment; that kinds, flags, rewards and infos of every row are those of the autoreset mode;
    that results handed out are not overwritten and arguments not changed; seeding; partial resets and their refusals;
    draws from the global random state; and awaitable calls against ordinary ones.

    Args:
        vec: the vector environment. It is reset and stepped, and not closed.
        steps: how many vector steps to take.
        seed: of the environment and of the actions.
        progress: called with 1 after each step.

    Returns:
        The problems, an empty list where there are none.

    Example:
        >>> with sekai.make_vec("Trading-v0", num_envs=4) as vec:
        ...     check_vec_env(vec)
        []
    """
    steps = whole_number("steps", steps, minimum=1)
    problems = Problems()
    if not isinstance(vec, VecEnv):
        problems.add(
            "type", f"{vec!r} is a {type(vec).__name__}.", "Derive it from sekai.NativeVecEnv or sekai.VecEnv."
        )
        return problems.found
    with reporting(problems):
        _Check(vec, problems, seed).run(steps, progress)
    return problems.found


def _walk(vec: VecEnv) -> Iterator[VecEnv]:
    """The vector wrappers of a vector environment, and itself."""
    yield vec
    while isinstance(vec, VecWrapper):
        vec = vec.venv
        yield vec


class _Actions:
    """Random actions of every slot, allowed ones where the environment has masks."""

    def __init__(self, vec: VecEnv, seed: int) -> None:
        self.vec, self.space = vec, deepcopy(vec.action_space)
        self.space.seed(seed)
        try:
            self.masked = bool(vec.call("action_mask"))
        except AttributeError:
            self.masked = False

    def sample(self) -> Any:
        """A batch of actions."""
        n, space = self.vec.num_envs, self.space
        if not self.masked:
            return concatenate(space, [space.sample() for _ in range(n)], what="action")
        flat = [flatten_mask(space, mask, f"sub-env {i}") for i, mask in enumerate(self.vec.call("action_mask"))]
        # a slot that waits for a reset may allow nothing; its action is ignored
        samples = [space.sample(mask=gymnasium_mask(space, mask)) if mask.any() else space.sample() for mask in flat]
        return concatenate(space, samples, what="action")


class _Check:
    def __init__(self, vec: VecEnv, problems: Problems, seed: int) -> None:
        self.vec, self.problems, self.seed = vec, problems, seed
        self.held: list[tuple[Any, Any]] = []  # results handed out, and copies of then
        self.waiting: dict[int, Any] = {}  # last observations of frozen slots
        self.lengths = np.zeros(vec.num_envs, np.int64)
        self.episodes: list[list[Episode]] = [[] for _ in range(vec.num_envs)]

    def run(self, steps: int, progress: Callable[[int], None] | None) -> None:
        vec, problems = self.vec, self.problems
        problems.step = 0
        with frozen_statistics(_walk(vec)):
            first = snapshot(self._reset(seed=self.seed).observations)
            again = self._reset(seed=self.seed).observations
        if not same_value(again, first):
            problems.add(
                "seeding", f"reset(seed={self.seed}) gave two different batches.", "Draw everything from self.rng."
            )
        self._check_refusals()
        actions = _Actions(vec, self.seed)
        for step in range(1, steps + 1):
            problems.step = step
            result = self._step(actions.sample())
            self._count(result)
            if progress is not None:
                progress(1)
            if step % 5 == 0:
                # the slots that wait, or one that runs
                chosen = result.dones if result.dones.any() else np.arange(vec.num_envs) == step // 5 % vec.num_envs
                self._check_partial_reset(chosen.copy(), result)
        problems.step = None
        for episodes in self.episodes:
            check_endings(vec.metadata, problems, episodes)
        self._check_awaited(min(steps, 100))

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        result = called(self.problems, what, call)
        for returned, then in self.held:
            if not same_value(returned, then):
                self.problems.add(
                    "results overwritten",
                    f"{what} changed what an earlier call had returned.",
                    "Return new arrays from _observe and _step, not the environment's own or views of them.",
                )
                self.held = []
                break
        return result

    def _reset(self, **given: Any) -> Any:
        text = ", ".join(f"{name}={value!r}" for name, value in given.items())
        result = self._called(f"reset({text})", lambda: self.vec.reset(**given))
        self._check_batch(result.observations)
        self._hold(result.observations, result.dones)
        return result

    def _step(self, actions: Any) -> VecStepResult:
        given = snapshot(actions)
        result: VecStepResult = self._called("step", lambda: self.vec.step(actions))
        if not same_value(actions, given):
            self.problems.add("actions", "step changed the actions it was given.", "Work on a copy of them.")
        self._check_arrays(result)
        self._check_batch(result.observations)
        self._check_rows(result)
        self._hold(result.observations, result.rewards, result.terminated, result.truncated, result.kind)
        return result

    def _count(self, result: VecStepResult) -> None:
        """Keep how the episodes of each slot ended."""
        self.lengths[result.kind == RowKind.RESET] = 0
        self.lengths += result.valid
        for slot in np.flatnonzero(result.ended).tolist():
            flags = bool(result.terminated[slot]), bool(result.truncated[slot])
            self.episodes[slot].append(Episode(int(self.lengths[slot]), *flags))
            self.lengths[slot] = 0

    def _hold(self, *returned: Any) -> None:
        self.held = [*self.held[-20:], *((value, snapshot(value)) for value in returned)]

    def _check_arrays(self, result: VecStepResult) -> None:
        n = self.vec.num_envs
        expected = {"rewards": np.float64, "terminated": np.bool_, "truncated": np.bool_}
        for name, dtype in expected.items():
            array = getattr(result, name)
            if not isinstance(array, np.ndarray) or array.shape != (n,) or array.dtype != dtype:
                shape, kind = getattr(array, "shape", None), getattr(array, "dtype", type(array).__name__)
                self.problems.add(
                    "arrays",
                    f"{name} has shape {shape} and dtype {kind}.",
                    f"Return shape {(n,)} and dtype {np.dtype(dtype)}.",
                )
                raise Stopped
        if len(result.infos) != n:
            self.problems.add("infos", f"There are {len(result.infos)} infos.", f"Return {n}, one per sub-env.")
            raise Stopped
        if not np.isfinite(result.rewards).all():
            self.problems.add("reward", f"Rewards are {result.rewards}.", "Return finite numbers.")

    def _check_batch(self, observations: Any) -> None:
        rows = list(iterate(self.vec.observation_space, observations))
        if len(rows) != self.vec.num_envs:
            self.problems.add(
                "observations", f"There are {len(rows)} rows.", f"Return {self.vec.num_envs}, one per sub-env."
            )
            raise Stopped
        for slot, row in enumerate(rows):
            check_observation(self.vec.observation_space, row, self.problems, f"The observation of sub-env {slot}")

    def _check_rows(self, result: VecStepResult) -> None:
        """Whether every row is what its kind says, and the kinds are those of the mode."""
        add, mode = self.problems.add, self.vec.autoreset
        strange = {RowKind(kind) for kind in result.kind.tolist()} - _MODES[mode] - {RowKind.LOST}
        if strange:
            names = ", ".join(sorted(kind.name for kind in strange))
            add("kinds", f"There are rows of kind {names}.", f"They do not occur under {mode.value}.")
        rows = list(iterate(self.vec.observation_space, result.observations))
        for slot in range(self.vec.num_envs):
            kind, done = RowKind(result.kind[slot]), bool(result.dones[slot])
            info = result.infos[slot]
            ended = kind in (RowKind.TERMINATED, RowKind.TRUNCATED)
            if ended != bool(result.ended[slot]) and kind is not RowKind.LOST:
                seen = f"Sub-env {slot} has kind {kind.name}, and ended is {result.ended[slot]}."
                add("kinds", seen, "ended is True where an episode ended in this call.")
            if kind is RowKind.STEP and done:
                add("kinds", f"Sub-env {slot} has kind STEP and a flag.", "A row that ends an episode is no STEP.")
            if kind in (RowKind.RESET, RowKind.FROZEN) and result.rewards[slot] != 0.0:
                seen = f"Sub-env {slot} has kind {kind.name} and reward {result.rewards[slot]}."
                add("rewards", seen, "Leave the reward of a row that is no transition at 0.0.")
            if ended:
                self._check_end(slot, result, info)
            elif kind is RowKind.FROZEN and slot in self.waiting:
                row = rows[slot]
                if not same_value(row, self.waiting[slot]) or info != {} or not done:
                    add("frozen rows", f"The row of sub-env {slot} is not its last one.", "Repeat it, with info {}.")

    def _check_end(self, slot: int, result: VecStepResult, info: dict[str, Any]) -> None:
        final = result.final_observation(slot)
        check_observation(
            self.vec.observation_space, final, self.problems, f"The last observation of sub-env {slot}'s episode"
        )
        has = {"final_observation", "final_info", "reset_info"} & info.keys()
        if self.vec.autoreset is AutoresetMode.SAME_STEP and len(has) != 3:
            self.problems.add(
                "infos",
                f"The info of sub-env {slot}, whose episode ended, has {sorted(info)}.",
                "Under same_step it has final_observation, final_info and reset_info.",
            )
        if self.vec.autoreset is AutoresetMode.DISABLED:
            self.waiting[slot] = snapshot(final)

    def _check_refusals(self) -> None:
        """Bad masks are refused, and nothing moves."""
        n = self.vec.num_envs
        for mask in (np.ones(n, int), np.ones(n + 1, bool), "all"):
            try:
                self.vec.reset(mask=mask)
            except (TypeError, ValueError):
                continue
            except Exception as error:
                self.problems.add(
                    "partial reset",
                    f"reset(mask={mask!r}) raised {type(error).__name__}: {error}",
                    "Refuse it with a TypeError or a ValueError.",
                )
                raise Stopped from error
            self.problems.add(
                "partial reset", f"reset(mask={mask!r}) was accepted.", f"Refuse all but bool arrays of shape {(n,)}."
            )

    def _check_partial_reset(self, mask: Any, result: VecStepResult) -> None:
        given = mask.copy()
        again = self._reset(mask=mask)
        if mask.tolist() != given.tolist():
            self.problems.add("partial reset", "reset changed the mask it was given.", "Work on a copy of it.")
        space = self.vec.observation_space
        pairs = zip(iterate(space, again.observations), iterate(space, result.observations), strict=True)
        for slot, (now, then) in enumerate(pairs):
            if given[slot]:
                self.waiting.pop(slot, None)
                self.lengths[slot] = 0
            elif not same_value(now, then) or again.infos[slot] != {}:
                self.problems.add(
                    "partial reset", f"The row of sub-env {slot}, outside the mask, changed.", "Leave it as it was."
                )
        if (again.dones & given).any():
            self.problems.add("partial reset", "A slot that was reset is still done.", "Clear its flags.")

    def _check_awaited(self, steps: int) -> None:
        ordinary = self._replay(steps, awaited=False)
        if same_value(ordinary, self._replay(steps, awaited=True)):
            return
        if not same_value(ordinary, self._replay(steps, awaited=False)):
            self.problems.add(
                "determinism",
                "Two runs with the same seed and the same actions differ.",
                "Draw everything from self.rng, and let a reset forget the last episode.",
            )
            return
        self.problems.add(
            "async",
            "async_reset and async_step give other rows than reset and step.",
            "Let one of them call the other, or share what they do.",
        )

    def _replay(self, steps: int, *, awaited: bool) -> Any:
        """Observations, rewards and kinds of a run."""
        vec = self.vec
        actions = _Actions(vec, self.seed)

        async def run() -> list[Any]:
            first = await vec.async_reset(seed=self.seed) if awaited else vec.reset(seed=self.seed)
            rows: list[Any] = [snapshot(first.observations)]
            for _ in range(steps):
                batch = actions.sample()
                result = await vec.async_step(batch) if awaited else vec.step(batch)
                rows.extend(map(snapshot, (result.observations, result.rewards, result.kind)))
            return rows

        what = "async_reset and async_step" if awaited else "a second run"
        drive = on_a_loop_of_its_own if awaited else without_a_loop
        with frozen_statistics(_walk(vec)):
            return called(self.problems, what, lambda: drive(run))
