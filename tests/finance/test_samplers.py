"""Episode samplers: positions count legal windows from 0, and each sub-environment gets what `spawn` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core import Spawns
from sekai.finance import EpisodeSampler, FixedStart, RandomStart, SequentialStart
from sekai.finance.samplers import as_sampler, check_positions


def draws(sampler: EpisodeSampler, count: int, windows: int = 10, length: int = 3, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    return [sampler.sample(rng, windows, length) for _ in range(count)]


def test_random_starts_cover_the_range_and_nothing_else() -> None:
    assert set(draws(RandomStart(), 300)) == set(range(10))
    assert set(draws(RandomStart(2, 5), 300)) == {2, 3, 4}  # high is exclusive
    assert set(draws(RandomStart(8), 300)) == {8, 9}


@pytest.mark.parametrize("sampler", [RandomStart(), RandomStart(2, 7)])
def test_many_random_starts_at_once_are_the_same_as_one_by_one(sampler: RandomStart) -> None:
    rng = np.random.default_rng(3)
    assert sampler.sample_many(rng, 100, 10, 3).tolist() == draws(sampler, 100, seed=3)
    other = np.random.default_rng(3)
    draws_of_other = [sampler.sample(other, 10, 3) for _ in range(100)]
    assert len(draws_of_other) == 100 and rng.integers(2**40) == other.integers(2**40)  # and the stream goes on alike


def test_a_widening_range_acts_at_once_and_on_every_holder() -> None:
    sampler = RandomStart(0, 1)
    shared = sampler.spawn()
    assert shared is sampler and draws(shared, 20) == [0] * 20
    sampler.low, sampler.high = 5, 6
    assert draws(shared, 20) == [5] * 20


@pytest.mark.parametrize(("low", "high"), [(0, 11), (10, None), (0, 12)])
def test_a_range_beyond_the_history_names_the_legal_one(low: int, high: int | None) -> None:
    with pytest.raises(ValueError, match=r"0 to 9 \(the history has 10 windows|holds no position"):
        draws(RandomStart(low, high), 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, 3), ValueError),
        ((-1, 3), ValueError),
        ((0.5, None), TypeError),
        ((0, 2.0), TypeError),
        ((True,), TypeError),
    ],
)
def test_an_empty_or_crooked_range_is_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="RandomStart"):
        RandomStart(*arguments)


def test_sequential_windows_follow_one_another_and_wrap_to_the_start() -> None:
    # 10 windows, episodes of 3: 0 3 6 9, and 12 no longer fits
    assert draws(SequentialStart(), 6) == [0, 3, 6, 9, 0, 3]
    assert draws(SequentialStart(1, 4), 5) == [1, 5, 9, 1, 5]
    assert draws(SequentialStart(9), 3) == [9, 9, 9]


def test_fixed_windows_come_in_turn() -> None:
    assert draws(FixedStart(4), 3) == [4, 4, 4]
    assert draws(FixedStart([7, 2]), 5) == [7, 2, 7, 2, 7]
    assert draws(FixedStart(np.array([1, 0])), 2) == [1, 0]  # type: ignore[arg-type]


@pytest.mark.parametrize("sampler", [SequentialStart(1, 2), FixedStart([4, 5])])
def test_samplers_with_a_memory_spawn_fresh_copies(sampler: EpisodeSampler) -> None:
    before = draws(sampler, 1)
    copy = sampler.spawn()
    assert isinstance(copy, Spawns) and copy is not sampler
    assert draws(copy, 1) == before  # begins anew
    assert draws(sampler, 1) != before  # and the original goes on


@pytest.mark.parametrize("sampler", [SequentialStart(10), FixedStart([10, 0])])
def test_a_position_out_of_range_is_returned_for_the_environment_to_refuse(sampler: EpisodeSampler) -> None:
    assert draws(sampler, 2) == [10, 10]  # and nothing is used up
    with pytest.raises(ValueError, match=r"gave position 10; expected 0 to 9 \(the history has 10 windows"):
        check_positions(np.array([0, 10]), 10, sampler)
    with pytest.raises(ValueError, match="gave position -1"):
        check_positions(np.array([-1]), 10, sampler)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: SequentialStart(-1), ValueError),
        (lambda: SequentialStart(0, 0), ValueError),
        (lambda: SequentialStart(0.0), TypeError),
        (lambda: FixedStart(-2), ValueError),
        (lambda: FixedStart([]), ValueError),
        (lambda: FixedStart([1, 2.5]), TypeError),
        (lambda: FixedStart("12"), TypeError),
    ],
)
def test_crooked_positions_are_refused(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Start"):
        make()


def test_names_stand_for_samplers() -> None:
    assert isinstance(as_sampler("random"), RandomStart) and isinstance(as_sampler("sequential"), SequentialStart)
    sampler = FixedStart(1)
    assert as_sampler(sampler) is sampler
    with pytest.raises(ValueError, match="sampler is 'sequentail'; expected 'random', 'sequential'"):
        as_sampler("sequentail")
    with pytest.raises(TypeError, match="sampler is 3"):
        as_sampler(3)


def test_a_sampler_of_ones_own_is_shared_and_drawn_one_by_one() -> None:
    class Odd(EpisodeSampler):
        def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
            return 2 * int(rng.integers(num_windows // 2)) + 1

    sampler = Odd()
    assert sampler.spawn() is sampler
    assert sampler.sample_many(np.random.default_rng(0), 50, 10, 3).tolist() == draws(sampler, 50)


def test_samplers_say_what_they_are() -> None:
    shown = [RandomStart(1), SequentialStart(), FixedStart(3), FixedStart([3, 4])]
    assert [repr(sampler) for sampler in shown] == [
        "RandomStart(low=1, high=None)",
        "SequentialStart(start=0, stride=None)",
        "FixedStart(3)",
        "FixedStart([3, 4])",
    ]


@pytest.mark.parametrize("sampler", [SequentialStart(2, 5), FixedStart([4, 1, 3])])
def test_a_restart_forgets_what_was_given(sampler: EpisodeSampler) -> None:
    rng = np.random.default_rng(0)
    first = [sampler.sample(rng, 20, 5) for _ in range(3)]
    assert len(set(first)) == 3
    sampler.restart()
    assert [sampler.sample(rng, 20, 5) for _ in range(3)] == first
