"""Resets on every backend: seeds, options, masks, and that a refused call moves nothing."""

from __future__ import annotations

import asyncio
import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import sekai
from tests.contract.envs import BACKENDS, MODES, OBJECTS, Coded, build, build_from, draws, factory, places


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End the whole run, with every thread's stack, when the block hangs."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def only(*slots: int, n: int = 3) -> Any:
    """The mask of these slots."""
    return np.isin(np.arange(n), slots)


# ---- masks -----------------------------------------------------------------------------------------


def test_an_option_that_only_sounds_like_a_mask_is_an_option() -> None:
    with build("sync", "disabled", (9, 9, 9)) as vec:
        vec.reset(seed=0, options={"reset_task": 3})
        vec.reset(seed=0, options={"reset_tasks": ["a", "b"]})
        vec.reset(seed=0, options={"reset_tasks": [[1], [1, 2]]})
        with pytest.raises(ValueError, match="reset_tasks"):  # negative control: this one is a mask
            vec.reset(seed=0, options={"reset_tasks": [True, False, True]})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_mask_is_refused_and_nothing_moves(backend: str, mode: str) -> None:
    # U7: misspelt key, wrong dtype, wrong length
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"masks": only(0)}, TypeError, "masks"),
        (
            {"options": {"reset_maks": only(0)}},
            ValueError,
            r"^options has the key 'reset_maks'; .* call reset\(mask=...\)",
        ),
        ({"options": {"reset_mask": only(0)}}, ValueError, "options has the key 'reset_mask'"),
        ({"mask": np.array([1, 0, 0])}, TypeError, r"dtype int64\); expected 3 bools, True for slots to reset"),
        ({"mask": [1.0, 0.0, 0.0]}, TypeError, "dtype float64"),
        ({"mask": "all"}, TypeError, "mask is 'all'"),
        ({"mask": np.ones(2, bool)}, ValueError, r"^mask has shape \(2,\); expected \(3,\), one bool per sub-env\.$"),
        ({"mask": np.ones((3, 1), bool)}, ValueError, r"mask has shape \(3, 1\)"),
        ({"mask": True}, ValueError, r"mask has shape \(\)"),
    ]
    with build(backend, mode, (9, 9, 9)) as vec:
        vec.reset(seed=0)
        before = vec.step([0, 0, 0]).observations
        for arguments, error, text in refused:
            with pytest.raises(error, match=text):
                vec.reset(**arguments)
        assert not vec.lost_rows.any()
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(slot, 0, 2) for slot in range(3)]
        assert draws(after.observations) == draws(before) and after.valid.all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_partial_reset_clears_what_is_pending_in_its_slots_only(backend: str, mode: str) -> None:
    # U6 and U8, under a watchdog of 5 s
    with build(backend, mode, (2, 2, 9)) as vec, at_most(5.0):
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        ended = vec.step([0, 0, 0])  # slots 0 and 1 end
        again = vec.reset(mask=only(0))
        waiting = mode != "same_step"
        assert again.dones.tolist() == [False, waiting, False]
        episode = 1 if waiting else 2
        assert places(again.observations)[0] == (0, episode, 0)
        assert places(again.observations)[1:] == places(ended.observations)[1:]
        result = vec.step([3, 3, 3])
        assert places(result.observations)[0] == (0, episode, 1) and result.rewards[0] == 13.0
        assert result.valid.tolist() == [True, not waiting, True]
        assert places(result.observations)[2] == (2, 0, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_untouched_rows_of_a_partial_reset_are_their_latest_and_private(backend: str) -> None:
    # U12: reset 1 of 3, change the returned array, step
    with build(backend, "disabled", (2, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        before = vec.step([0, 0, 0])
        mask = only(1)
        result = vec.reset(mask=mask)
        assert mask.tolist() == [False, True, False]
        assert np.array_equal(result.observations[[0, 2]], before.observations[[0, 2]])
        assert result.infos[0] == {} == result.infos[2] and result.infos[1]["t"] == 0
        kept = result.observations.copy()
        result.observations[:] = -7.0
        again = vec.reset(mask=only())
        assert np.array_equal(again.observations, kept)
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(0, 0, 2), (1, 1, 1), (2, 0, 3)]
        assert draws(after.observations) == draws(kept)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_mask_changes_nothing_the_stream_included(backend: str, mode: str) -> None:
    starts = []
    for meddle in (False, True):
        with build(backend, mode, (2, 2, 3)) as vec:
            vec.reset(seed=5)
            last = vec.step([0, 0, 0])
            last = vec.step([0, 0, 0])
            if meddle:
                for _ in range(3):
                    nothing = vec.reset(mask=np.zeros(3, bool), options={"at": 1})
                    assert np.array_equal(nothing.observations, last.observations)
                    assert list(nothing.infos) == [{}, {}, {}]
                    assert nothing.dones.tolist() == ([False] * 3 if mode == "same_step" else [True, True, False])
            following = vec.step([0, 0, 0])
            starts.append((following.observations.tolist(), following.kind.tolist(), draws(vec.reset().observations)))
    assert starts[0] == starts[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_slots_that_were_never_reset_are_named(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9)) as vec:
        with pytest.raises(
            sekai.ResetRequired, match=r"^sub-envs \[0, 1, 2\] need a reset: call reset\(\) before step\(\)\.$"
        ):
            vec.step([0, 0, 0])
        with pytest.raises(
            sekai.ResetRequired, match=r"^sub-envs \[1\] need a reset and are outside the mask: reset them as well\.$"
        ):
            vec.reset(mask=only(0, 2))
        with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[0, 1, 2\]"):
            vec.reset(mask=only())
        assert places(vec.reset().observations) == [(slot, 0, 0) for slot in range(3)], "nothing had moved"


# ---- seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", OBJECTS)
def test_eighty_slots_of_ten_seeds_have_eighty_streams(backend: str) -> None:
    # U55: seed + slot would make 17 of them, and the streams are the same on every backend
    with build(backend, "same_step", (9,) * 8) as vec:
        first = [draws(vec.reset(seed=seed).observations) for seed in range(10)]
    assert len({draw for row in first for draw in row}) == 80
    children = np.random.SeedSequence(3).spawn(8)
    seeds = [int(child.generate_state(1, np.uint64)[0]) >> 1 for child in children]
    assert first[3] == [int(np.random.default_rng(seed).integers(10**12)) for seed in seeds]
    naive = {seed + slot for seed in range(10) for slot in range(8)}
    assert len(naive) == 17


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_seed_continues_the_streams_and_a_seed_restarts_them(backend: str) -> None:
    with build(backend, "same_step", (9, 9)) as vec:
        seen = [draws(vec.reset(seed=seed).observations) for seed in (1, None, None, 1, None, [None, None])]
    assert seen[3:5] == seen[:2] and seen[5] == seen[2]
    assert len({draw for row in seen[:3] for draw in row}) == 6


@pytest.mark.parametrize("backend", OBJECTS)
def test_a_list_of_seeds_seeds_each_slot_on_its_own(backend: str) -> None:
    def number(seed: int) -> int:
        return int(np.random.default_rng(seed).integers(10**12))

    with build(backend, "same_step", (9, 9, 9)) as vec:
        assert draws(vec.reset(seed=[7, 8, 7]).observations) == [number(7), number(8), number(7)]
        second = draws(vec.reset(seed=[None, 8, None]).observations)
        stream = np.random.default_rng(7)
        assert second == [int(stream.integers(10**12, size=2)[1]), number(8), second[0]]
        generator = np.random.default_rng(9)
        assert draws(vec.reset(seed=[generator, 8, 7]).observations) == [number(9), number(8), number(7)]


@pytest.mark.parametrize("backend", OBJECTS)
def test_an_int_seed_with_a_mask_gives_masked_slots_their_own_child(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9)) as vec:
        whole = draws(vec.reset(seed=6).observations)
        other = draws(vec.reset(seed=7).observations)
        part = draws(vec.reset(seed=6, mask=only(2)).observations)
        assert part == [other[0], other[1], whole[2]], "not the first child, and the others are untouched"


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_seed_is_refused_before_anything_moves(backend: str) -> None:
    refused: list[tuple[Any, type[Exception], str]] = [
        (True, TypeError, r"^seed is True \(bool\); expected an int >= 0"),
        ("7", TypeError, r"seed is '7' \(str\)"),
        (1.5, TypeError, r"seed is 1.5 \(float\)"),
        (-1, ValueError, "seed is -1"),
        ([1, 2], ValueError, r"^seed has 2 entries; expected 3, one per sub-env\.$"),
        ([1, 2, True], TypeError, r"seed\[2\] is True"),
        (np.random.default_rng(0), TypeError, "^One generator cannot seed 3 sub-envs independently"),
    ]
    with build(backend, "same_step", (9, 9, 9)) as vec:
        vec.reset(seed=0)
        for seed, error, text in refused:
            with pytest.raises(error, match=text):
                vec.reset(seed=seed)
        assert places(vec.step([0, 0, 0]).observations) == [(slot, 0, 1) for slot in range(3)]
        stream = draws(vec.reset().observations)
        vec.reset(seed=0)
        assert draws(vec.reset().observations) == stream, "the refused calls drew nothing"


# ---- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_options_are_one_dict_for_all_or_one_entry_for_each(backend: str) -> None:
    with build(backend, "same_step", (9, 9, 9)) as vec:
        assert places(vec.reset(options={"at": 2}).observations) == [(0, 0, 2), (1, 0, 2), (2, 0, 2)]
        assert places(vec.reset(options=[{"at": 1}, None, {"at": 3}]).observations) == [(0, 1, 1), (1, 1, 0), (2, 1, 3)]
        assert places(vec.reset().observations) == [(slot, 2, 0) for slot in range(3)], (
            "they applied to that reset only"
        )
        for options, error, text in (
            ([{}], ValueError, r"^options has 1 entries; expected 3, one per sub-env\.$"),
            ([{}, 5, {}], TypeError, r"^options\[1\] is 5 \(int\); expected a dict or None\.$"),
            ("fast", TypeError, r"^options is 'fast' \(str\); expected a dict or None\.$"),
        ):
            with pytest.raises(error, match=text):
                vec.reset(options=options)
        assert places(vec.step([0, 0, 0]).observations) == [(slot, 2, 1) for slot in range(3)]


class Grabby(Coded):
    """Changes the options it is given, at every depth, and keeps them."""

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        result = super().reset(seed=seed, options=options)
        if options is not None:
            options["path"].append(self.slot)
            options["deep"]["array"][:] = self.slot
            options["mine"] = self.slot
        return result


@pytest.mark.parametrize("backend", OBJECTS)
def test_an_env_that_changes_its_options_changes_nobody_elses(backend: str) -> None:
    given = {"path": [7], "deep": {"array": np.array([9, 9])}}
    with build_from([factory(Grabby, slot) for slot in range(3)], backend) as vec:
        vec.reset(options=given)
        assert given["path"] == [7] and given["deep"]["array"].tolist() == [9, 9] and "mine" not in given
        seen = [options[0] for options in vec.get_attr("options")]
        assert [options["path"] for options in seen] == [[7, 0], [7, 1], [7, 2]]
        assert [options["deep"]["array"].tolist() for options in seen] == [[0, 0], [1, 1], [2, 2]]
        vec.reset(options=[given] * 3)  # one object three times
        seen = [options[1] for options in vec.get_attr("options")]
        assert [options["path"] for options in seen] == [[7, 0], [7, 1], [7, 2]] and given["path"] == [7]


class Careful(Coded):
    """Says which options it would refuse, as the finance environments do."""

    def check_options(self, options: Any) -> None:
        if (options or {}).get("at", 0) > 5:
            raise ValueError(f"at is {options['at']}; expected at most 5")


@pytest.mark.parametrize("backend", OBJECTS)
def test_options_that_one_slot_would_refuse_move_no_slot(backend: str) -> None:
    with build_from([factory(Careful, slot, 9) for slot in range(3)], backend) as vec:
        vec.reset(seed=0)
        with pytest.raises((ValueError, sekai.VecEnvWorkerError), match="at is 6; expected at most 5"):
            vec.reset(options=[{"at": 1}, {"at": 2}, {"at": 6}])
        assert not vec.lost_rows.any()
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(slot, 0, 1) for slot in range(3)] and after.valid.all()


# ---- options of the next episode -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_options_of_the_next_episode_are_asked_for_in_order_once_each(backend: str, mode: str) -> None:
    # U17. Slot 0 has episodes of two steps, slot 1 of three; the answer for episode e starts it at step 1.
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any] | None:
        asked.append((slot, episode))
        return {"at": 1} if episode == 2 else None

    with build(backend, mode, (2, 3), autoreset_options=options) as vec:
        vec.reset(seed=0)
        assert asked == [(0, 1), (1, 1)]
        first: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
        seen = [0, 0]
        for _ in range(10):
            for slot, episode, t in places(vec.step([0, 0]).observations):
                if episode > seen[slot]:
                    seen[slot] = episode
                    first[slot].append((episode, t))
        # only episode 2 starts at 1, without the callback every one would start at 0
        assert first[0][:3] == [(1, 0), (2, 1), (3, 0)] and first[1][:2] == [(1, 0), (2, 1)]
        assert len(asked) == len(set(asked)), "nothing is asked twice"
        for slot in (0, 1):
            assert [episode for s, episode in asked if s == slot] == list(range(1, seen[slot] + 2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_options_of_episodes_that_start_together_are_asked_for_in_slot_order(backend: str) -> None:
    asked: list[int] = []

    def options(slot: int, episode: int) -> None:
        asked.append(slot)

    with build(backend, "same_step", (1, 1, 1, 1, 1), autoreset_options=options) as vec:
        vec.reset(seed=0)
        vec.step([0] * 5)
        vec.reset(mask=np.array([False, True, False, True, False]))
    assert asked == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 1, 3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_explicit_reset_drops_what_was_prepared_and_counts_as_an_episode(backend: str) -> None:
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any]:
        asked.append((slot, episode))
        return {"draw": 100 * slot + episode}  # the row says which answer it came from

    with build(backend, "same_step", (2, 2), autoreset_options=options) as vec:
        vec.reset(seed=0)
        vec.reset(options={"draw": 77}, mask=np.array([True, False]))
        assert asked == [(0, 1), (1, 1), (0, 2)]
        vec.step([0, 0])
        restarted = vec.step([0, 0])
        # slot 0: episode 2 with its own answer, not the one prepared for the episode that reset replaced
        assert places(restarted.observations) == [(0, 2, 0), (1, 1, 0)]
        assert draws(restarted.observations) == [2, 101]


@pytest.mark.parametrize("backend", BACKENDS)
def test_options_for_an_autoreset_that_never_comes_are_refused(backend: str) -> None:
    with pytest.raises(ValueError, match="autoreset_options was given, and autoreset is disabled"):
        build(backend, "disabled", (1, 1), autoreset_options=lambda slot, episode: None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_question_that_fails_is_asked_again_and_the_rows_are_lost(backend: str) -> None:
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any]:
        asked.append((slot, episode))
        if len(asked) in (2, 6):
            raise RuntimeError("no answer yet")
        return {"draw": 100 * slot + episode}

    with build(backend, "same_step", (2, 2), autoreset_options=options) as vec:
        with pytest.raises(RuntimeError, match="no answer yet"):
            vec.reset(seed=0)
        # the episodes have begun, and nobody saw their first rows
        assert asked == [(0, 1), (1, 1)] and vec.lost_rows.tolist() == [True, True]
        assert vec.step([0, 0]).kind.tolist() == [sekai.RowKind.LOST] * 2
        assert asked == [(0, 1), (1, 1), (1, 1)]
        restarted = vec.step([0, 0])  # both end; asks (0, 2), (1, 2)
        assert draws(restarted.observations) == [1, 101] and asked[3:] == [(0, 2), (1, 2)]
        vec.step([0, 0])
        with pytest.raises(RuntimeError, match="no answer yet"):
            vec.step([0, 0])  # both end; (0, 3) fails
        assert vec.lost_rows.all()
        after = vec.step([0, 0])
        assert asked[5:] == [(0, 3), (0, 3), (1, 3)]
        assert after.kind.tolist() == [sekai.RowKind.LOST] * 2 and places(after.observations) == [(0, 2, 1), (1, 2, 1)]
        assert vec.step([0, 0]).kind.tolist() == [sekai.RowKind.TERMINATED] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_that_are_no_options_are_refused(backend: str) -> None:
    with (
        build(backend, "same_step", (2, 2), autoreset_options=lambda slot, episode: slot or None) as vec,
        pytest.raises(TypeError, match=r"^autoreset_options\(1, ...\) is 1 \(int\); expected a dict or None\.$"),
    ):
        vec.reset(seed=0)
    with pytest.raises(TypeError, match=r"^autoreset_options is 5; expected a function of \(slot, episode\)\.$"):
        build(backend, "same_step", (2, 2), autoreset_options=5)


def test_questions_come_in_slot_order_though_resets_finish_in_another() -> None:
    class Waits(Coded):
        async def async_reset(self, **arguments: Any) -> Any:
            await asyncio.sleep(0.03 * (2 - self.slot))
            return self.reset(**arguments)

    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> None:
        asked.append((slot, episode))

    with sekai.AsyncVecEnv([lambda i=i: Waits(i, 1) for i in range(3)], autoreset_options=options) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
    assert asked == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]
