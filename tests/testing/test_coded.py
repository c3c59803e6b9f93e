"""The coded environments tell the truth about themselves, one by one and natively."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sekai
from sekai.testing import CodedEnv, CodedVecEnv
from sekai.testing.coded import Ending


def test_observation_reward_and_info_say_where_they_come_from() -> None:
    env = CodedEnv(4, length=2)
    for episode in range(2):
        first = env.reset()
        assert (first.observation.tolist(), first.info) == ([4, episode, 0], {"t": 0})
        step = env.step(3)
        assert (step.observation.tolist(), step.reward, step.done, step.info) == (
            [4, episode, 1],
            13.0,
            False,
            {"t": 1},
        )
        step = env.step(5)
        assert (step.observation.tolist(), step.reward, step.done, step.info) == ([4, episode, 2], 25.0, True, {"t": 2})
        assert step.observation in env.observation_space


@pytest.mark.parametrize(
    ("ending", "flags"), [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))]
)
def test_the_ending_decides_the_flags(ending: Any, flags: tuple[bool, bool]) -> None:
    env = CodedEnv(length=2, ending=ending)
    env.reset()
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == flags
    vec = CodedVecEnv(2, 2, ending=ending)
    vec.reset(seed=0)
    vec.step([0, 0])
    result = vec.step([0, 0])
    assert [(bool(te), bool(tr)) for te, tr in zip(result.terminated, result.truncated, strict=True)] == [flags] * 2


def test_one_array_and_one_dict_are_reused() -> None:
    env = CodedEnv()
    first = env.reset()
    step = env.step(0)
    assert step.observation is first.observation
    assert step.info is first.info
    with pytest.raises(AssertionError):
        check_env(CodedEnv(), skip_render_check=True)


def test_an_episode_may_start_later() -> None:
    env = CodedEnv(length=3)
    assert env.reset(options={"at": 2}).observation.tolist() == [0, 0, 2]
    assert env.step(1).done, "the length counts from t = 0"


@pytest.mark.parametrize(
    ("at", "kind", "text"),
    [
        (3, ValueError, "options['at'] is 3; expected 0 to 2, a step before the end."),
        (-1, ValueError, "options['at'] is -1; expected 0 to 2, a step before the end."),
        (1.5, TypeError, "'float' object cannot be interpreted as an integer"),
    ],
)
def test_a_start_outside_the_episode_is_refused_before_anything_moves(at: Any, kind: Any, text: str) -> None:
    env, vec = CodedEnv(), CodedVecEnv(2)
    env.reset()
    vec.reset(seed=0)
    for refuses in (env.check_options, lambda options: env.reset(options=options)):
        with pytest.raises(kind, match=re.escape(text)):
            refuses({"at": at})
    with pytest.raises(kind, match=re.escape(text)):
        vec.reset(options=[None, {"at": at}])
    assert env.episode == 0
    assert vec.episode.tolist() == [0, 0]
    assert env.step(0).observation.tolist() == [0, 0, 1]


def test_no_step_without_an_episode() -> None:
    env = CodedEnv(length=1)
    with pytest.raises(sekai.ResetRequired, match=r"has no episode to step: call reset\(\) first\."):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(sekai.ResetRequired, match="has no episode to step"):
        env.step(0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CodedEnv(length=0), "length is 0; expected at least 1."),
        (lambda: CodedVecEnv(2, [1, 0]), "length is 0; expected at least 1."),
        (lambda: CodedEnv(ending="never"), "ending is 'never'; expected one of 'terminated', 'truncated', 'both'."),  # type: ignore[arg-type]  # the mistake under test
        (lambda: CodedVecEnv(2, [1]), "length has 1 entries and ending 2; expected 2, one per slot."),
        (lambda: CodedVecEnv(2, ending=["both"]), "length has 2 entries and ending 1; expected 2, one per slot."),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


LENGTHS = [2, 3, 2]
ENDINGS: list[Ending] = ["terminated", "truncated", "both"]


@pytest.mark.parametrize("mode", [mode.value for mode in sekai.AutoresetMode])
def test_the_native_one_does_what_the_single_ones_do(mode: str) -> None:
    single: Any = [
        lambda slot=slot: CodedEnv(slot, LENGTHS[slot], ending=ENDINGS[slot]) for slot in range(3)
    ]  # one factory per slot
    with (
        CodedVecEnv(3, LENGTHS, ending=ENDINGS, autoreset=mode) as native,
        sekai.SyncVecEnv(single, autoreset=mode) as serial,
    ):
        starts = [vec.reset(seed=0, options=[None, {"at": 1}, None]) for vec in (native, serial)]
        assert np.array_equal(starts[0].observations, starts[1].observations)
        assert list(starts[0].infos) == list(starts[1].infos)
        for actions in ([1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1], [2, 2, 2]):
            a, b = (vec.step(actions) for vec in (native, serial))
            for name in ("observations", "rewards", "terminated", "truncated", "kind", "ended"):
                assert np.array_equal(getattr(a, name), getattr(b, name)), name
                assert getattr(a, name).dtype == getattr(b, name).dtype
            assert a.infos == b.infos
        assert native.episode.max() >= (0 if mode == "disabled" else 1)


def test_every_reset_inside_the_native_one_follows_exactly_one_flag() -> None:
    """Slots of length 91, 200 calls: the resets counted in the kernel equal the flags the caller saw."""

    class Counting(CodedVecEnv):
        resets = 0

        def _reset_envs(self, indices: Any, options: Any) -> None:
            self.resets += len(indices)
            super()._reset_envs(indices, options)

    vec = Counting(3, 91, ending=["terminated", "truncated", "truncated"])
    vec.reset(seed=0)
    begun, flags = vec.resets, 0
    for _ in range(200):
        result = vec.step([0, 0, 0])
        flags += int(result.terminated.sum()) + int(result.truncated.sum())
    # 200 // 91 = 2 ends in each of three slots
    assert vec.resets - begun == flags == 6


def test_a_native_slot_is_never_stepped_past_its_end() -> None:
    vec = CodedVecEnv(2, [2, 3], autoreset="disabled")
    vec.reset(seed=0)
    for _ in range(4):
        vec.step([0, 0])
    assert vec.t.tolist() == [2, 3]
    vec.frozen[:] = False  # what a backend that forgot about frozen slots would hand to the hook
    with pytest.raises(sekai.ResetRequired, match=r"^slots \[0, 1\] of .* were stepped past their end\.$"):
        vec._step(np.zeros(2, int))


def test_a_time_limit_cuts_the_native_one_too() -> None:
    vec = CodedVecEnv(1, 9, max_episode_steps=2, autoreset="disabled")
    vec.reset(seed=0)
    assert not vec.step([0]).truncated[0]
    result = vec.step([0])
    assert result.truncated[0]
    assert result.infos[0] == {"t": 2, "elapsed_steps": 2}
