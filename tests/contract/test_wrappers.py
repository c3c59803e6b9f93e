"""Every wrapper does the same around one environment and around a batch, on `step` and `async_step`, in every mode.

The rule of the suite: what a vector wrapper returns for a slot is what the single wrapper returns for a lone
environment that is given the actions which were executed in that slot. Slots have episodes of 3 and 4 steps, so that
they end at different times; under `disabled` they are reset one by one through the mask.

A check that cannot fail proves nothing. These mutants are each caught by the check named (`MUTANTS` below):

    statistics updated by terminal rows                              check_statistics
    a reward wrapper that touches frozen rows                        check_rows_that_are_no_transitions
    a frame stack whose final frame is added after the reset          check_slots_are_lone_envs
    a wrapper that drops the mask of a partial reset                  check_slots_are_lone_envs
    a wrapper whose async_step blocks                                 check_concurrency
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings

import sekai
from sekai import RowKind
from sekai.testing import CodedEnv, CodedVecEnv
from sekai.vector.observing import acted_on
from tests.contract.envs import MODES
from tests.spaces.strategies import fixed_spaces

LENGTHS = (3, 4)
ENDINGS = ("terminated", "truncated")
UNIT = sekai.Box(0.0, 9.0, shape=(), dtype=np.float64)
PARTS = sekai.Dict({"where": sekai.Box(0.0, 1e6, (2,), np.float64), "t": sekai.Box(0.0, 1e6, (1,), np.float64)})


class Masked(CodedEnv):
    """A coded environment that tells which actions are allowed: all but number `t`."""

    def step(self, action: Any) -> sekai.StepResult:
        result = super().step(action)
        return result._replace(info={**result.info, "action_mask": _mask(result.info["t"])})

    def reset(self, **given: Any) -> sekai.ResetResult:
        result = super().reset(**given)
        return result._replace(info={**result.info, "action_mask": _mask(result.info["t"])})


class MaskedVec(CodedVecEnv):
    """`Masked`, natively."""

    def _step(self, actions: Any) -> Any:
        *rest, infos = super()._step(actions)
        return *rest, {**infos, "action_mask": np.stack([_mask(t) for t in self.t])}

    def _reset_infos(self, indices: Any) -> Any:
        return {**super()._reset_infos(indices), "action_mask": np.stack([_mask(t) for t in self.t[indices]])}


def _mask(t: int) -> Any:
    return (np.arange(10) != t).astype(np.int8)


def split(observation: Any) -> Any:
    """A coded observation, or a batch of them, in two parts."""
    return {"where": observation[..., :2], "t": observation[..., 2:]}


class Case(NamedTuple):
    """One wrapper: around one environment, and around a vector environment."""

    single: Callable[[Any], Any]
    vector: Callable[[Any], Any]
    action_space: Any = None
    masked: bool = False
    make: Callable[[int], Any] | None = None  # a slot's environment, where it is no coded one


CASES = {
    "clip action": Case(sekai.ClipAction, sekai.VecClipAction, UNIT),
    "rescale action": Case(
        lambda env: sekai.RescaleAction(env, -1.0, 1.0), lambda vec: sekai.VecRescaleAction(vec, -1.0, 1.0), UNIT
    ),
    "delay action": Case(
        lambda env: sekai.DelayAction(env, 2, noop=7), lambda vec: sekai.VecDelayAction(vec, 2, noop=7)
    ),
    "clip reward": Case(
        lambda env: sekai.ClipReward(env, 12.0, 30.0), lambda vec: sekai.VecClipReward(vec, 12.0, 30.0)
    ),
    "transform reward": Case(
        lambda env: sekai.TransformReward(env, lambda r: r - 100.0),
        lambda vec: sekai.VecTransformReward(vec, lambda r: r - 100.0),
    ),
    "transform observation": Case(
        lambda env: sekai.TransformObservation(env, lambda o: o * 2 + 1),
        lambda vec: sekai.VecTransformObservation(vec, lambda o: o * 2 + 1),
    ),
    "filter": Case(
        lambda env: sekai.FilterObservation(sekai.TransformObservation(env, split, PARTS), ["t"]),
        lambda vec: sekai.VecFilterObservation(sekai.VecTransformObservation(vec, split, PARTS), ["t"]),
    ),
    "flatten": Case(
        lambda env: sekai.FlattenObservation(sekai.TransformObservation(env, split, PARTS)),
        lambda vec: sekai.VecFlattenObservation(sekai.VecTransformObservation(vec, split, PARTS)),
    ),
    "frame stack": Case(
        lambda env: sekai.FrameStackObservation(env, 3), lambda vec: sekai.VecFrameStackObservation(vec, 3)
    ),
    "frame stack, zeros": Case(
        lambda env: sekai.FrameStackObservation(env, 3, padding="zeros"),
        lambda vec: sekai.VecFrameStackObservation(vec, 3, padding="zeros"),
    ),
    "frame stack of parts": Case(
        lambda env: sekai.FrameStackObservation(sekai.TransformObservation(env, split, PARTS), 2),
        lambda vec: sekai.VecFrameStackObservation(sekai.VecTransformObservation(vec, split, PARTS), 2),
    ),
    "delay observation": Case(
        lambda env: sekai.DelayObservation(env, 2), lambda vec: sekai.VecDelayObservation(vec, 2)
    ),
    "delay observation, reset": Case(
        lambda env: sekai.DelayObservation(env, 1, padding="reset"),
        lambda vec: sekai.VecDelayObservation(vec, 1, padding="reset"),
    ),
    "time": Case(
        lambda env: sekai.TimeAwareObservation(env, 4), lambda vec: sekai.VecTimeAwareObservation(vec, 4)
    ),
    "action mask": Case(sekai.ActionMaskObservation, sekai.VecActionMaskObservation, masked=True),
    "statistics": Case(sekai.RecordEpisodeStatistics, sekai.VecRecordEpisodeStatistics),
    "all that remember": Case(
        lambda env: sekai.DelayObservation(
            sekai.FrameStackObservation(sekai.TimeAwareObservation(sekai.DelayAction(env, 1, noop=7), 4), 2), 1
        ),
        lambda vec: sekai.VecDelayObservation(
            sekai.VecFrameStackObservation(
                sekai.VecTimeAwareObservation(sekai.VecDelayAction(vec, 1, noop=7), 4), 2
            ),
            1,
        ),
    ),
}  # fmt: skip


def make_vec(backend: str, mode: str, case: Case) -> Any:
    """Coded environments of both lengths on a backend."""
    space = {"action_space": case.action_space}
    if backend == "native":
        native = MaskedVec if case.masked else CodedVecEnv
        return native(len(LENGTHS), LENGTHS, ending=ENDINGS, autoreset=mode, **space)
    fns = [lambda slot=slot: lone_env(slot, case) for slot in range(len(LENGTHS))]
    cls = {"sync": sekai.SyncVecEnv, "async": sekai.AsyncVecEnv, "proc": sekai.ProcVecEnv}[backend]
    return cls(fns, autoreset=mode)


def lone_env(slot: int, case: Case) -> Any:
    if case.make is not None:
        return case.make(slot)
    cls = Masked if case.masked else CodedEnv
    return cls(slot, LENGTHS[slot], ending=ENDINGS[slot], action_space=case.action_space)


def action_of(slot: int, taken: int, case: Case) -> Any:
    """The action after `taken` executed ones: within the space that the wrapper shows, and for a clip beyond it."""
    number = (3 * taken + slot) % 10
    if case.action_space is None:
        return number
    # an array, which a wrapper could write to
    return np.array(number * 1.5 - 2.0 if case.single is sekai.ClipAction else number / 5.0 - 0.9)


Row = tuple[Any, float, bool, bool, Any, Any]  # observation, reward, terminated, truncated, next observation, info


def lone_rows(slot: int, case: Case, count: int, *, awaited: bool) -> list[Row]:
    """The transitions of a lone environment, reset whenever its episode has ended."""
    env = case.single(lone_env(slot, case))

    async def run() -> list[Row]:
        rows: list[Row] = []
        before: Any = None
        for taken in range(count):
            if before is None:
                first = await env.async_reset(seed=0) if awaited else env.reset(seed=0)
                assert type(first) is sekai.ResetResult
                before = copy.deepcopy(first.observation)
            action = action_of(slot, taken, case)
            given = copy.deepcopy(action)
            result = await env.async_step(action) if awaited else env.step(action)
            assert type(result) is sekai.StepResult and result.done is (result.terminated or result.truncated)
            assert np.array_equal(action, given), "the caller's action is the caller's"
            row = (before, *result[1:4], result.observation, clean(result.info))
            rows.append(copy.deepcopy(row))
            before = None if result.done else copy.deepcopy(result.observation)
        return rows

    return asyncio.run(run())


def vector_rows(vec: Any, case: Case, calls: int, *, awaited: bool) -> list[list[Row]]:
    """The transitions of each slot; under `disabled` a slot is reset as soon as it has ended."""
    n = vec.num_envs
    rows: list[list[Row]] = [[] for _ in range(n)]

    async def run() -> None:
        first = await vec.async_reset(seed=0) if awaited else vec.reset(seed=0)
        before = snapshots(vec, first.observations)
        for _ in range(calls):
            actions = np.array([action_of(slot, len(rows[slot]), case) for slot in range(n)])
            given = actions.copy()
            result = await vec.async_step(actions) if awaited else vec.step(actions)
            assert np.array_equal(actions, given), "the caller's actions are the caller's"
            assert result.dones.tolist() == (result.terminated | result.truncated).tolist()
            after = snapshots(vec, result.observations)
            for slot in np.flatnonzero(result.valid).tolist():
                ended = bool(result.ended[slot])
                reached = copy.deepcopy(result.final_observation(slot)) if ended else after[slot]
                info = result.final_info(slot) if ended else result.infos[slot]
                flags = bool(result.terminated[slot]), bool(result.truncated[slot])
                episode = {key: value for key, value in result.infos[slot].items() if key == "episode"}
                rows[slot].append(
                    (before[slot], float(result.rewards[slot]), *flags, reached, clean({**info, **episode}))
                )
            before = after
            mask = result.dones & ["reset_info" not in info for info in result.infos]
            if vec.autoreset is sekai.AutoresetMode.DISABLED and mask.any():
                waiting = mask.copy()
                again = await vec.async_reset(mask=mask) if awaited else vec.reset(mask=mask)
                assert mask.tolist() == waiting.tolist(), "the caller's mask is the caller's"
                before = snapshots(vec, again.observations)

    asyncio.run(run())
    return rows


def snapshots(vec: Any, observations: Any) -> list[Any]:
    return [copy.deepcopy(row) for row in sekai.spaces.iterate(vec.observation_space, observations)]


def clean(info: dict[str, Any]) -> dict[str, Any]:
    """An info without what depends on the clock."""
    if "episode" not in info:
        return dict(info)
    stats = info["episode"]
    return {**info, "episode": (stats.episode_return, stats.episode_length, stats.terminated, stats.truncated)}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b)


def check_slots_are_lone_envs(vec: Any, case: Case, *, awaited: bool) -> None:
    """Each slot's transitions are those of a lone environment, and every observation lies in the declared space."""
    with vec:
        slots = vector_rows(vec, case, 17, awaited=awaited)
        for slot, rows in enumerate(slots):
            assert len(rows) >= 8, "at least two whole episodes"
            for place, (mine, alone) in enumerate(
                zip(rows, lone_rows(slot, case, len(rows), awaited=awaited), strict=True)
            ):
                assert same(mine[:5], alone[:5]), (slot, place, mine, alone)
                assert same(mine[5], alone[5]), (slot, place, mine[5], alone[5])
                assert mine[4] in vec.observation_space and mine[0] in vec.observation_space


@pytest.mark.parametrize("awaited", [False, True], ids=["step", "async_step"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "async", "native"])
@pytest.mark.parametrize("name", CASES)
def test_each_slot_under_a_vector_wrapper_is_a_lone_env_under_the_single_one(
    name: str, backend: str, mode: str, awaited: bool
) -> None:
    case = CASES[name]
    check_slots_are_lone_envs(case.vector(make_vec(backend, mode, case)), case, awaited=awaited)


#: wrappers of single environments only
INSIDE = {
    "rescale observation": lambda env: sekai.RescaleObservation(env, -1.0, 1.0),
    "dtype": lambda env: sekai.DtypeObservation(env, np.float32),
    "action repeat": lambda env: sekai.ActionRepeat(env, 2),
    "time limit": lambda env: sekai.TimeLimit(env, 3),
    "order": sekai.OrderEnforcing,
}


@pytest.mark.parametrize("awaited", [False, True], ids=["step", "async_step"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*CASES, *INSIDE])
def test_single_wrappers_inside_the_slots_do_the_same(name: str, mode: str, awaited: bool) -> None:
    case = CASES[name] if name in CASES else Case(INSIDE[name], lambda vec: vec)
    fns = [lambda slot=slot: case.single(lone_env(slot, case)) for slot in range(len(LENGTHS))]
    check_slots_are_lone_envs(sekai.AsyncVecEnv(fns, autoreset=mode), case, awaited=awaited)


@pytest.mark.parametrize("mode", MODES)
def test_all_that_remember_over_worker_processes(mode: str) -> None:
    case = CASES["all that remember"]
    check_slots_are_lone_envs(case.vector(make_vec("proc", mode, case)), case, awaited=False)


@pytest.mark.parametrize("name", ["all that remember", "filter", "flatten", "statistics", "transform observation"])
@pytest.mark.parametrize("mode", MODES)
def test_around_sub_envs_that_reset_themselves(name: str, mode: str) -> None:
    """The final observation stands in the info in every mode, and the slot never waits."""
    case = CASES[name]
    fns = [lambda slot=slot: sekai.AutoReset(lone_env(slot, case)) for slot in range(len(LENGTHS))]
    check_slots_are_lone_envs(case.vector(sekai.SyncVecEnv(fns, autoreset=mode)), case, awaited=False)


class Draws(CodedEnv):
    """A coded environment that shows draws of any space instead, one after another through all episodes."""

    def __init__(self, space: Any, slot: int) -> None:
        super().__init__(slot, LENGTHS[slot], ending=ENDINGS[slot])
        self.observation_space = copy.deepcopy(space)
        self.observation_space.seed(slot)

    def reset(self, **given: Any) -> sekai.ResetResult:
        return super().reset(**given)._replace(observation=self.observation_space.sample())

    def step(self, action: Any) -> sekai.StepResult:
        return super().step(action)._replace(observation=self.observation_space.sample())


ON_ANY_SPACE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "frame stack": CASES["frame stack"][:2],
    "frame stack, zeros": CASES["frame stack, zeros"][:2],
    "delay observation": CASES["delay observation"][:2],
    "flatten": (sekai.FlattenObservation, sekai.VecFlattenObservation),
    "frozen normaliser": (
        lambda env: frozen(sekai.NormalizeObservation(env, clip=3.0)),
        lambda vec: frozen(sekai.VecNormalizeObservation(vec, clip=3.0)),
    ),
}


def frozen(wrapper: Any) -> Any:
    wrapper.update_running_mean = False
    return wrapper


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ON_ANY_SPACE)
@settings(max_examples=12)
@given(space=fixed_spaces)
def test_each_slot_is_a_lone_env_on_any_space(name: str, mode: str, space: Any) -> None:
    single, vector = ON_ANY_SPACE[name]
    if name == "frozen normaliser" and not list(sekai.spaces.boxes_of(space)):
        return
    case = Case(single, vector, make=lambda slot: Draws(space, slot))
    check_slots_are_lone_envs(vector(make_vec("sync", mode, case)), case, awaited=False)


# ---- statistics ----------------------------------------------------------------------------------


def pooled(vec: Any, calls: int) -> tuple[list[Any], list[float]]:
    """Observations that were acted on, and discounted returns (0.9), by the rows of a vector environment."""
    observations = list(vec.reset(seed=0).observations)
    returns, running = [], np.zeros(vec.num_envs)
    for call in range(calls):
        result = vec.step([call % 10] * vec.num_envs)
        for slot in range(vec.num_envs):
            if result.valid[slot]:
                running[slot] = 0.9 * running[slot] + result.rewards[slot]
                returns.append(running[slot])
                running[slot] *= not result.ended[slot]
            last = bool(result.dones[slot]) and "reset_info" not in result.infos[slot]
            if not last:
                observations.append(result.observations[slot])
        if vec.autoreset is sekai.AutoresetMode.DISABLED and call % 3 == 2 and result.dones.any():
            again = vec.reset(mask=result.dones.copy())
            observations.extend(again.observations[result.dones])
    return observations, returns


def drive(vec: Any, calls: int, awaited: bool) -> None:
    """As `pooled` does."""

    async def run() -> None:
        await vec.async_reset(seed=0) if awaited else vec.reset(seed=0)
        for call in range(calls):
            actions = [call % 10] * vec.num_envs
            result = await vec.async_step(actions) if awaited else vec.step(actions)
            if vec.autoreset is sekai.AutoresetMode.DISABLED and call % 3 == 2 and result.dones.any():
                mask = result.dones.copy()
                await vec.async_reset(mask=mask) if awaited else vec.reset(mask=mask)

    asyncio.run(run())


def check_statistics(wrap: Callable[[Any], Any], backend: str, mode: str, awaited: bool = False) -> None:
    """Observation statistics are NumPy's over the observations acted on."""
    observations, _ = pooled(make_vec(backend, mode, CASES["statistics"]), 20)
    with wrap(make_vec(backend, mode, CASES["statistics"])) as vec:
        drive(vec, 20, awaited)
        assert vec.obs_rms.count == len(observations)
        assert np.allclose(vec.obs_rms.mean, np.mean(observations, 0), rtol=1e-12, atol=0)
        assert np.allclose(vec.obs_rms.var, np.var(observations, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("awaited", [False, True], ids=["step", "async_step"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "async", "native"])
def test_observation_statistics_are_those_of_the_observations_acted_on(backend: str, mode: str, awaited: bool) -> None:
    check_statistics(sekai.VecNormalizeObservation, backend, mode, awaited)


@pytest.mark.parametrize("awaited", [False, True], ids=["step", "async_step"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "async", "native"])
def test_reward_statistics_are_those_of_the_transitions(backend: str, mode: str, awaited: bool) -> None:
    # U66: the reset-only row under next_step and frozen rows do not count
    _, returns = pooled(make_vec(backend, mode, CASES["statistics"]), 20)
    with sekai.VecNormalizeReward(make_vec(backend, mode, CASES["statistics"]), gamma=0.9) as vec:
        drive(vec, 20, awaited)
        assert vec.return_rms.count == len(returns)
        assert np.allclose(vec.return_rms.var, np.var(returns), rtol=1e-12, atol=0)
        assert np.allclose(vec.return_rms.mean, np.mean(returns), rtol=1e-12, atol=0)


def test_single_and_vector_reward_statistics_agree_in_every_mode() -> None:
    # U66. One slot of length 3 with action 1: rewards 11, 21, 31, so G = 11, 9.9 + 21 = 30.9, 27.81 + 31 = 58.81
    def env() -> Any:
        return CodedEnv(0, 3)

    single = sekai.NormalizeReward(env(), gamma=0.9)
    for _ in range(2):
        single.reset(seed=0)
        for _ in range(3):
            single.step(1)
    assert np.isclose(single.return_rms.var, np.var([11.0, 30.9, 58.81]), rtol=1e-12)
    for mode, calls in {"same_step": 6, "next_step": 7, "disabled": 6}.items():
        with sekai.VecNormalizeReward(sekai.SyncVecEnv([env], autoreset=mode), gamma=0.9) as vec:
            vec.reset(seed=0)
            for _ in range(calls):
                if vec.step([1]).dones[0] and mode == "disabled":
                    vec.reset()
            assert vec.return_rms.count == 6
            assert abs(vec.return_rms.var - single.return_rms.var) < 1e-9


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "native"])
def test_last_observations_are_normalised_by_the_statistics_after_the_call_and_once(backend: str, mode: str) -> None:
    # U67
    with sekai.VecNormalizeObservation(make_vec(backend, mode, CASES["statistics"])) as vec:
        vec.reset(seed=0)
        episodes, shown = [0, 0], [None, None]
        for _ in range(6):
            result = vec.step([0, 0])
            for slot in np.flatnonzero(result.ended).tolist():
                raw = np.array([slot, episodes[slot], LENGTHS[slot]])
                expected = (raw - vec.obs_rms.mean) / np.sqrt(vec.obs_rms.var + 1e-8)
                final = result.final_observation(slot)
                assert np.allclose(final, expected, rtol=1e-12)
                episodes[slot], shown[slot] = episodes[slot] + 1, final.copy()
            for slot in np.flatnonzero(result.kind == RowKind.FROZEN).tolist():
                assert np.array_equal(result.observations[slot], shown[slot]), "repeated as it was shown"
        assert min(episodes) >= 1


def check_rows_that_are_no_transitions(wrap: Callable[[Any], Any], mode: str) -> None:
    """A row that is no transition keeps the reward 0.0."""
    with wrap(make_vec("sync", mode, CASES["statistics"])) as vec:
        vec.reset(seed=0)
        others = 0
        for _ in range(8):
            result = vec.step([1, 1])
            others += int((~result.valid).sum())
            assert (result.rewards[~result.valid] == 0.0).all()
            assert (result.rewards[result.valid] != 0.0).all()
        assert others or mode == "same_step"


REWARDS = {
    "transform": lambda vec: sekai.VecTransformReward(vec, lambda rewards: rewards - 1000.0),
    "clip": lambda vec: sekai.VecClipReward(vec, 5.0, 6.0),
    "normalise": sekai.VecNormalizeReward,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REWARDS)
def test_reward_wrappers_leave_rows_alone_that_are_no_transitions(name: str, mode: str) -> None:
    check_rows_that_are_no_transitions(REWARDS[name], mode)


# ---- lost rows -----------------------------------------------------------------------------------


class Fails(CodedEnv):
    """Action 9 raises."""

    def step(self, action: Any) -> sekai.StepResult:
        if action == 9:
            raise ValueError("nine is too much")
        return super().step(action)


@pytest.mark.parametrize("mode", MODES)
def test_after_a_lost_row_memory_begins_with_what_is_there_now(mode: str) -> None:
    fns = [lambda slot=slot: Fails(slot, 4) for slot in range(2)]
    with sekai.VecFrameStackObservation(sekai.SyncVecEnv(fns, autoreset=mode), 3) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([0, 9])  # slot 0 takes its second step unseen, slot 1 none
        result = vec.step([0, 0])
        assert result.kind.tolist() == [RowKind.LOST] * 2
        # steps 3 and 2: the frames before are not what the policy saw last
        assert result.observations[:, :, 2].tolist() == [[3, 3, 3], [2, 2, 2]]
        final = vec.step([0, 0])
        assert final.final_observation(0)[:, 2].tolist() == [3, 3, 4] and final.ended.tolist() == [True, False]
        assert final.observations[1, :, 2].tolist() == [2, 2, 3]


def test_a_partial_reset_after_a_lost_row_shows_what_is_there_now() -> None:
    fns = [lambda slot=slot: Fails(slot, 9) for slot in range(3)]
    with sekai.VecFrameStackObservation(sekai.SyncVecEnv(fns), 2) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([0, 0, 9])
        shown = vec.reset(mask=np.array([False, False, True]))
        assert shown.observations[:, :, 2].tolist() == [[2, 2], [2, 2], [0, 0]]


def test_after_a_lost_row_the_time_is_that_of_the_infos() -> None:
    fns = [lambda slot=slot: sekai.TimeLimit(Fails(slot, 9), 8) for slot in range(2)]
    with sekai.VecTimeAwareObservation(sekai.SyncVecEnv(fns)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([0, 9])
        # slot 0 has taken three steps, slot 1 two
        assert vec.step([0, 0]).observations[:, 3].tolist() == [3 / 8, 2 / 8]
        assert vec.step([0, 0]).observations[:, 3].tolist() == [4 / 8, 3 / 8]


def test_after_a_lost_row_actions_on_their_way_are_dropped_and_returns_begin_anew() -> None:
    # action 7 does nothing here; a delay of one step
    delayed = sekai.VecDelayAction(sekai.SyncVecEnv([lambda: Fails(0, 9), lambda: Fails(1, 9)]), 1, noop=7)
    with delayed as vec:
        vec.reset(seed=0)
        assert vec.step([1, 9]).rewards.tolist() == [17.0, 17.0]
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([2, 2])
        # the 2 given to slot 0 is lost with the call: 10 * 3 + 7 and 10 * 2 + 7
        assert vec.step([3, 3]).rewards.tolist() == [37.0, 27.0]
        # with that row the queue has begun anew: the 3 given there is not on its way either
        assert vec.step([4, 4]).rewards.tolist() == [47.0, 37.0]
        assert vec.step([5, 5]).rewards.tolist() == [54.0, 44.0]
    scaled = sekai.VecNormalizeReward(sekai.SyncVecEnv([lambda: Fails(0, 9), lambda: Fails(1, 9)]), gamma=0.5)
    with scaled as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([0, 9])
        vec.step([0, 0])  # lost: no return
        vec.step([0, 0])
        # slot 0: 10, then from its fourth step 40; slot 1: 10, then from its third step 30
        assert np.isclose(vec.return_rms.mean, np.mean([10, 10, 40, 30])) and vec.return_rms.count == 4


def test_a_refused_step_changes_no_memory() -> None:
    case = CASES["all that remember"]
    with case.vector(make_vec("sync", "same_step", case)) as vec:
        first = vec.reset(seed=0).observations.copy()
        for bad in ([0], [0, 0.5], [0, None]):
            with pytest.raises(ValueError):
                vec.step(bad)
        assert np.array_equal(vec.reset(mask=np.zeros(2, bool)).observations, first)
        # both delays are still full of what they began with: the first reward is that of the idle action
        assert vec.step([1, 1]).rewards.tolist() == [17.0, 17.0]


def test_results_handed_out_are_not_overwritten_and_may_be_written_to() -> None:
    for name in ("frame stack", "delay observation", "time", "action mask"):
        case = CASES[name]
        kept, wild = (case.vector(make_vec("native", "same_step", case)) for _ in range(2))
        results = [kept.reset(seed=0), *(kept.step([0, 0]) for _ in range(5))]
        before = copy.deepcopy([result.observations for result in results])
        for _ in range(5):
            kept.step([0, 0])
        assert all(map(same, before, [result.observations for result in results]))
        wild.reset(seed=0)
        for expected in before[1:]:
            result = wild.step([0, 0])
            assert same(result.observations, expected)
            leaves = result.observations.values() if isinstance(result.observations, dict) else [result.observations]
            for leaf in leaves:
                leaf[:] = 0


@pytest.mark.parametrize("mode", MODES)
def test_a_partial_reset_leaves_the_normalised_rows_of_the_others_as_they_were(mode: str) -> None:
    with sekai.VecNormalizeObservation(make_vec("native", mode, CASES["statistics"])) as vec:
        vec.reset(seed=0)
        shown = [vec.step([0, 0]).observations for _ in range(2)][-1]
        count = vec.obs_rms.count
        again = vec.reset(mask=np.array([True, False])).observations
        assert np.array_equal(again[1], shown[1]) and not np.array_equal(again[0], shown[0])
        assert vec.obs_rms.count == count + 1, "the first observation of slot 0, and nothing of slot 1"


def test_a_row_seen_again_after_a_failed_step_counts_when_a_partial_reset_shows_it() -> None:
    with sekai.VecNormalizeObservation(sekai.SyncVecEnv([lambda s=s: Fails(s, 9) for s in range(3)])) as vec:
        vec.reset(seed=0)  # 3 rows
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([0, 0, 9])
        shown = vec.reset(mask=np.array([False, False, True])).observations
        # slots 0 and 1 at step 1, seen for the first time, and slot 2 at step 0 of its second episode
        assert vec.obs_rms.count == 6
        raw = np.array([[0, 0, 1], [1, 0, 1], [2, 1, 0]], float)
        assert np.allclose(shown, (raw - vec.obs_rms.mean) / np.sqrt(vec.obs_rms.var + 1e-8), rtol=1e-12)


def test_a_frozen_row_is_not_lost_by_transforms_that_fail() -> None:
    failing = []

    class Picky(sekai.VecObservationWrapper):
        def observation(self, batch: Any) -> Any:
            return batch

        def final_observation(self, obs: Any) -> Any:
            if failing:
                raise RuntimeError(failing.pop())
            return obs + 100.0

    with Picky(sekai.SyncVecEnv([lambda: CodedEnv(0, 2), lambda: CodedEnv(1, 9)], autoreset="disabled")) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        failing.extend(["first", "second"])
        for _ in range(2):
            with pytest.raises(RuntimeError):
                vec.step([0, 0])
        assert vec.step([0, 0]).observations[0].tolist() == [100.0, 100.0, 102.0]


def test_a_reset_only_row_after_a_lost_one_leaves_no_action_on_its_way() -> None:
    fns = [lambda: Fails(0, 2), lambda: Fails(1, 9)]
    with sekai.VecDelayAction(sekai.SyncVecEnv(fns, autoreset="next_step"), 1, noop=0) as vec:
        vec.reset(seed=0)
        vec.step([1, 9])
        with pytest.raises(ValueError, match="nine is too much"):
            vec.step([1, 1])  # slot 0 ends unseen
        assert vec.step([2, 2]).kind[0] == RowKind.LOST  # slot 0 resets; its action is ignored
        assert vec.step([3, 3]).rewards[0] == 10.0, "the idle action, and not the ignored 2"


def test_a_call_that_is_refused_does_not_disturb_the_one_in_progress() -> None:
    class Slow(CodedEnv):
        async def async_step(self, action: Any) -> Any:
            started.set()
            await asyncio.sleep(0.05)
            return CodedEnv.step(self, action)

    started = threading.Event()

    async def run(vec: Any) -> Any:
        await vec.async_reset(seed=0)
        running = asyncio.create_task(vec.async_step([1]))
        while not started.is_set():
            await asyncio.sleep(0.001)
        for refused in (vec.async_step([2]), vec.async_reset()):
            with pytest.raises(sekai.VecEnvBusy):
                await refused
        return await running, await vec.async_step([0])

    with sekai.VecDelayAction(sekai.AsyncVecEnv([lambda: Slow(0, 9)]), 1, noop=0) as vec:
        first, second = asyncio.run(run(vec))
    assert (first.kind.tolist(), first.rewards.tolist()) == ([RowKind.STEP], [10.0])
    assert (second.kind.tolist(), second.rewards.tolist()) == ([RowKind.STEP], [21.0]), "the 1, not the refused 2"


@pytest.mark.parametrize(
    "wrap",
    [sekai.NormalizeObservation, sekai.NormalizeReward, lambda env: sekai.FrameStackObservation(env, 2)],
    ids=["observations", "rewards", "frames"],
)
def test_a_copy_of_a_wrapper_goes_its_own_way(wrap: Any) -> None:
    env = wrap(CodedEnv(0, 99))
    env.reset(seed=0)
    for _ in range(5):
        env.step(1)
    copied = copy.deepcopy(env)
    for _ in range(20):
        env.step(9)
    fresh = wrap(CodedEnv(0, 99))
    fresh.reset(seed=0)
    for _ in range(5):
        fresh.step(1)
    ours, theirs = copied.step(2), fresh.step(2)
    assert np.array_equal(ours.observation, theirs.observation) and ours.reward == theirs.reward


def test_literal_frames_in_every_mode() -> None:
    """U20. One slot of length 2, `t` of each frame; the stack of three begins full of the first observation."""
    expected = {
        "same_step": [[0, 0, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        "next_step": [[0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]],
        "disabled": [[0, 0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]],
    }
    for mode, rows in expected.items():
        with sekai.VecFrameStackObservation(CodedVecEnv(1, 2, autoreset=mode), 3) as vec:
            assert vec.reset(seed=0, options={"at": 1}).observations[0, :, 2].tolist() == [1, 1, 1]
            assert vec.reset(seed=0).observations[0, :, 2].tolist() == [0, 0, 0]
            results = [vec.step([0]) for _ in range(4)]
            assert [result.observations[0, :, 2].tolist() for result in results] == rows
            assert results[1].final_observation(0)[:, 2].tolist() == [0, 1, 2]


def test_every_dimension_has_a_scale_of_its_own() -> None:
    # U69
    rng = np.random.default_rng(0)

    class Scales(sekai.NativeVecEnv):
        def __init__(self) -> None:
            super().__init__(64, sekai.Box(-np.inf, np.inf, (3,), np.float64), sekai.Discrete(2))

        def _reset_envs(self, indices: Any, options: Any) -> None: ...

        def _observe(self) -> Any:
            return rng.normal(5.0, 1.0, (64, 3)) * [1.0, 1e3, 1e6]

        def _step(self, actions: Any) -> Any:
            none = np.zeros(64, bool)
            return np.zeros(64), none, none.copy(), {}

    with sekai.VecNormalizeObservation(Scales()) as vec:
        vec.reset(seed=0)
        rows = np.concatenate([vec.step(np.zeros(64, int)).observations for _ in range(100)][50:])
    assert np.allclose(rows.mean(0), 0.0, atol=0.1) and np.allclose(rows.std(0), 1.0, atol=0.1)


# ---- concurrency ---------------------------------------------------------------------------------


class Meets(CodedEnv):
    """`async_step` returns when every slot is inside one and the caller's loop has gone on meanwhile."""

    inside: list[int] = []  # noqa: RUF012  # shared by the slots, on purpose
    caller_goes_on = threading.Event()

    async def async_step(self, action: Any) -> Any:
        self.inside.append(self.slot)
        for _ in range(500):
            if len(self.inside) % 3 == 0 and self.caller_goes_on.is_set():
                return CodedEnv.step(self, action)
            await asyncio.sleep(0.002)
        raise AssertionError("the others did not come, or the caller waits: the steps are not concurrent")

    def step(self, action: Any) -> Any:
        raise AssertionError("a blocking step")


def check_concurrency(wrap: Callable[[Any], Any]) -> None:
    """All slots are inside `async_step` at once, and the caller's loop runs on."""
    Meets.inside.clear()
    Meets.caller_goes_on.clear()

    async def another_task() -> None:
        Meets.caller_goes_on.set()

    async def run(vec: Any) -> None:
        await vec.async_reset(seed=0)
        await asyncio.gather(vec.async_step([1] * 3), another_task())

    with wrap(sekai.AsyncVecEnv([lambda slot=slot: Meets(slot, 9) for slot in range(3)])) as vec:
        asyncio.run(run(vec))


ASYNC = {
    **{name: case.vector for name, case in CASES.items() if case.action_space is None and not case.masked},
    "normalise observation": sekai.VecNormalizeObservation,
    "normalise reward": sekai.VecNormalizeReward,
}


@pytest.mark.parametrize("name", ASYNC)
def test_vector_wrappers_stay_concurrent(name: str) -> None:
    check_concurrency(ASYNC[name])


# ---- mutants -------------------------------------------------------------------------------------


class CountsLastRows(sekai.VecNormalizeObservation):
    """Mutant: the last observation of an episode enters the statistics."""

    def after_step(self, result: Any) -> Any:
        shown = acted_on(result)
        if shown is not None:
            for slot in np.flatnonzero(result.ended).tolist():
                self._normalizer.update(result.final_observation(slot)[None])
        return super().after_step(result)


class TouchesFrozenRows(sekai.VecTransformReward):
    """Mutant: every reward is transformed."""

    def after_step(self, result: Any) -> Any:
        return result.replace(rewards=self.reward(result.rewards))


class StacksAfterTheReset(sekai.VecFrameStackObservation):
    """Mutant: under same_step the new episode begins before the final observation has been stacked."""

    def _sort(self, result: Any, of: Any) -> None:
        begun = np.flatnonzero(result.ended)
        self.begin(begun, result.observations[begun])
        super()._sort(result, of)


class DropsTheMask(sekai.VecFrameStackObservation):
    """Mutant: a partial reset restarts the memory of every slot."""

    def after_reset(self, result: Any, mask: Any) -> Any:
        return super().after_reset(result, np.ones(self.num_envs, bool))


class Blocks(sekai.VecTransformReward):
    """Mutant: `async_step` steps."""

    async def async_step(self, actions: Any) -> Any:
        return self.step(actions)


STACK = CASES["frame stack"]
MUTANTS: dict[str, Callable[[], None]] = {
    "statistics updated by terminal rows": lambda: check_statistics(CountsLastRows, "sync", "same_step"),
    "statistics updated by terminal rows, next_step": lambda: check_statistics(CountsLastRows, "native", "next_step"),
    "reward wrapper touching frozen rows": lambda: check_rows_that_are_no_transitions(
        lambda vec: TouchesFrozenRows(vec, lambda rewards: rewards - 1000.0), "disabled"
    ),
    "frame stack filled after the reset": lambda: check_slots_are_lone_envs(
        StacksAfterTheReset(make_vec("sync", "same_step", STACK), 3), STACK, awaited=False
    ),
    "mask dropped by one wrapper": lambda: check_slots_are_lone_envs(
        DropsTheMask(make_vec("sync", "disabled", STACK), 3), STACK, awaited=False
    ),
    "blocking async": lambda: check_concurrency(lambda vec: Blocks(vec, lambda rewards: rewards)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_suite_catches_this_mutant(name: str) -> None:
    with pytest.raises(AssertionError):
        MUTANTS[name]()
