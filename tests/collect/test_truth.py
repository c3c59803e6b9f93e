"""The heart: what is collected is what single environments do when they are stepped by hand.

Random episode lengths, endings and fragment lengths; every backend, every mode.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai import RowKind
from sekai.collect import Collector, Fragment
from tests.collect.envs import MODES, CodedPolicy, Script, Transition, action_on, by_hand, memory_before, scripted
from tests.rays import on_ray, start_ray

EPISODES = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["terminated", "truncated", "both"])), min_size=1, max_size=4
)
SCRIPTS = st.lists(EPISODES, min_size=3, max_size=3)
LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=3)


def transitions(fragment: Fragment, slot: int) -> list[Transition]:
    """The valid rows of one slot."""
    successors = fragment.next_observations()
    return [
        Transition(
            tuple(fragment.observations[t, slot].tolist()),
            int(fragment.actions[t, slot]),
            float(fragment.rewards[t, slot]),
            bool(fragment.terminated[t, slot]),
            bool(fragment.truncated[t, slot]),
            tuple(successors[t, slot].tolist()),
        )
        for t in np.flatnonzero(fragment.valid[:, slot])
    ]


def check_marks(fragment: Fragment) -> None:
    """Everything that is derived, against the definition read off the coded observations."""
    rows = np.argwhere(fragment.valid)
    t, slots = rows[:, 0], rows[:, 1]
    observations = fragment.observations[t, slots]
    steps = observations[:, 2]
    assert fragment.step_index[t, slots].tolist() == steps.tolist()
    assert fragment.episode_start[t, slots].tolist() == (steps == 0).tolist()
    np.testing.assert_array_equal(fragment.next_observations(t, slots), fragment.next_observations()[t, slots])
    flags = {tuple(row): (bool(fragment.terminated[tuple(row)]), bool(fragment.truncated[tuple(row)])) for row in rows}
    valid = set(flags)
    for row, (terminated, truncated) in flags.items():
        over = terminated or truncated
        follower = (row[0] + 1, row[1])
        assert fragment.bootstrap[row] == (not terminated)
        assert fragment.cut[row] == (not over and follower not in valid)
        assert fragment.trace[row] == (not over and follower in valid)
        kind = RowKind.TERMINATED if terminated else RowKind.TRUNCATED if truncated else RowKind.STEP
        assert fragment.kind[row] == kind
    for mask in (fragment.bootstrap, fragment.cut, fragment.trace):
        assert not mask[~fragment.valid].any()
    assert (fragment.episode_id[~fragment.valid] == -1).all()
    assert (fragment.step_index[~fragment.valid] == -1).all()


def check_infos(fragment: Fragment) -> None:
    """The infos of steps, not of resets, and of nothing else."""
    expected = np.where(fragment.valid, fragment.observations[:, :, 2] + 1, 0)
    assert fragment.infos["t"].tolist() == expected.tolist()


def check_memory(fragment: Fragment) -> None:
    """Values, the policy's memory and its states, against what they are by hand."""
    assert fragment.values is not None and fragment.next_values is not None
    successors = fragment.next_observations()
    for t, slot in np.argwhere(fragment.valid).tolist():
        row = fragment.observations[t, slot]
        before = memory_before(row[2])
        assert fragment.extras["before"][t, slot] == before
        assert fragment.values[t, slot] == row @ [1e6, 1e4, 100] + before + 0.5
        after = successors[t, slot] @ [1e6, 1e4, 100] + memory_before(row[2] + 1) + 0.5
        assert fragment.next_values[t, slot] == (0 if fragment.terminated[t, slot] else after)
        if t == 0 or row[2] % 2 == 0:
            assert fragment.state_at([t], [slot])["sum"].tolist() == [before]
        else:
            with pytest.raises(LookupError, match=f"before row {t} of slot {slot} was not kept"):
                fragment.state_at([t], [slot])


def collect_and_check(
    vec: sekai.VecEnv, scripts: list[Script], lengths: list[int], options: Any = None, **given: Any
) -> None:
    """Collect one fragment of each length, each by the same collector's successor, and compare with the hand."""
    for length in lengths:
        collector = Collector(
            vec, CodedPolicy(), fragment_length=length, values=True, state_stride=2, infos=["t"], **given
        )
        collector.reset(options=options)
        fragments = [collector.collect() for _ in range(3)]
        found: list[list[Transition]] = [[] for _ in scripts]
        known: dict[int, tuple[float, float]] = {}
        for fragment in fragments:
            check_marks(fragment)
            check_memory(fragment)
            check_infos(fragment)
            for slot in range(len(scripts)):
                found[slot] += transitions(fragment, slot)
            for t, slot in np.argwhere(fragment.valid).tolist():
                place = tuple(fragment.observations[t, slot, :2].tolist())
                assert known.setdefault(int(fragment.episode_id[t, slot]), place) == place
        assert len(set(known.values())) == len(known), "two ids for one episode"
        counters = collector.counters
        for slot, script in enumerate(scripts):
            began = int(found[slot][0].observation[1])
            if options is None and began:  # the same environment served the collector before: skip what it did
                by_now = [one for one in islice(by_hand(slot, script), 500) if one.observation[1] >= began]
                assert found[slot] == by_now[: len(found[slot])]
            else:
                assert found[slot] == list(islice(by_hand(slot, script), len(found[slot])))
        total = sum(len(one) for one in found)
        assert counters.valid == total and counters.rows == 3 * length * len(scripts)
        assert counters.valid + counters.reset_only + counters.frozen + counters.lost == counters.rows
        assert counters.terminated == sum(one.terminated for rows in found for one in rows)
        assert counters.truncated == sum(one.truncated and not one.terminated for rows in found for one in rows)
        assert counters.frozen == counters.lost == 0
        if vec.autoreset is not sekai.AutoresetMode.NEXT_STEP:
            assert counters.valid == counters.rows
        else:
            ends = counters.terminated + counters.truncated
            assert ends - len(scripts) <= counters.reset_only <= ends


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "native"])
@settings(max_examples=334)
@given(scripts=SCRIPTS, lengths=LENGTHS)
def test_what_is_collected_is_what_single_environments_do(
    backend: str, mode: str, scripts: list[Script], lengths: list[int]
) -> None:
    vec = scripted(backend, scripts, mode)
    collect_and_check(vec, scripts, lengths[:1] if backend == "native" else lengths)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("backend", "examples"), [("async", 17), ("proc", 17), on_ray("ray", 10)])
def test_the_same_holds_where_one_environment_serves_all_cases(
    backend: str, examples: int, mode: str, request: pytest.FixtureRequest
) -> None:
    start_ray(backend, request)
    with scripted(backend, [[(1, "terminated")]] * 3, mode) as vec:

        @settings(max_examples=examples)
        @given(scripts=SCRIPTS, lengths=LENGTHS)
        def cases(scripts: list[Script], lengths: list[int]) -> None:
            collect_and_check(vec, scripts, lengths, {"script": scripts})

        cases()


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=67)
@given(scripts=SCRIPTS, lengths=LENGTHS, min_slots=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_the_same_holds_where_slots_advance_on_their_own(
    mode: str, scripts: list[Script], lengths: list[int], min_slots: int, seed: int
) -> None:
    vec = scripted("shuffled", scripts, mode)
    vec.shuffle = np.random.default_rng(seed)  # type: ignore[attr-defined]  # of ShuffledVecEnv
    collect_and_check(vec, scripts, lengths, min_slots=min_slots)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("backend", "examples"), [("async", 7), ("proc", 4)])
def test_the_same_holds_on_their_own_where_one_environment_serves_all_cases(
    backend: str, examples: int, mode: str
) -> None:
    with scripted(backend, [[(1, "terminated")]] * 3, mode) as vec:

        @settings(max_examples=examples)
        @given(scripts=SCRIPTS, lengths=LENGTHS, min_slots=st.integers(1, 3))
        def cases(scripts: list[Script], lengths: list[int], min_slots: int) -> None:
            collect_and_check(vec, scripts, lengths, {"script": scripts}, min_slots=min_slots)

        cases()


def test_the_coded_policy_is_no_constant() -> None:
    assert len({action_on((slot, episode, step)) for slot in range(3) for episode in range(3) for step in range(4)}) > 5
