"""One seed makes many: distinct, the same everywhere, and refused where it is none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.seeding import check_seed, slot_seeds, spawn_seeds

EXPECTED = "expected an int >= 0, None or a numpy.random.Generator."

# SeedSequence(7, spawn_key=(k,)).generate_state(2, uint32) is (low, high) of child k's first 64-bit word
WORDS = [(1201125462, 788422957), (3618983171, 941218350), (3831650445, 4088273801)]


def test_ten_base_seeds_give_eighty_distinct_streams() -> None:
    seeds = [seed for base in range(10) for seed in spawn_seeds(base, 8)]
    assert len(set(seeds)) == 80
    assert len({np.random.default_rng(seed).random() for seed in seeds}) == 80
    # the plausible wrong way, base + i, has only 10 + 8 - 1 = 17 of them
    assert len({base + i for base in range(10) for i in range(8)}) == 17


def test_the_children_of_seed_seven() -> None:
    for k, (low, high) in enumerate(WORDS):
        child = np.random.SeedSequence(7, spawn_key=(k,))
        assert child.generate_state(2, np.uint32).tolist() == [low, high]
    # (high * 2**32 + low) // 2, for child 0: (788422957 * 4294967296 + 1201125462) // 2
    assert spawn_seeds(7, 3) == [1693125408465869867, 2021251017632032385, 8779501138110131270]
    assert spawn_seeds(7, 3) == [(high * 2**32 + low) // 2 for low, high in WORDS]


@given(st.integers(0, 2**70), st.integers(1, 9))
def test_seeds_are_python_ints_below_two_to_the_63_and_a_longer_list_starts_the_same(seed: int, n: int) -> None:
    seeds = spawn_seeds(seed, n)
    assert all(type(one) is int and 0 <= one < 2**63 for one in seeds)
    assert len(set(seeds)) == n
    assert spawn_seeds(seed, n + 1)[:n] == seeds


def test_zero_is_a_seed_like_any_other() -> None:
    assert check_seed(0) == 0
    assert slot_seeds(0, 2) == spawn_seeds(0, 2)
    assert slot_seeds(0, 2) != slot_seeds(None, 2)


@pytest.mark.parametrize("value", [np.int64(5), np.uint8(5)])
def test_numpy_integers_become_python_ints(value: Any) -> None:
    assert type(check_seed(value)) is int
    assert slot_seeds(value, 2) == slot_seeds(5, 2)
    assert [type(seed) for seed in slot_seeds([value, value], 2)] == [int, int]


def test_none_and_generators_pass_as_they_are() -> None:
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    assert check_seed(None) is None
    assert check_seed(generator) is generator
    assert slot_seeds(None, 3) == [None, None, None]
    taken = slot_seeds([generator, None, 4], 3)
    assert taken[0] is generator
    assert taken[1:] == [None, 4]
    assert generator.bit_generator.state == before, "asking for seeds draws nothing"


@pytest.mark.parametrize("entries", [[4, 5, 6], (4, 5, 6), np.array([4, 5, 6])])
def test_a_list_of_seeds_is_taken_entry_by_entry(entries: Any) -> None:
    assert slot_seeds(entries, 3) == [4, 5, 6]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, TypeError, f"seed is True (bool); {EXPECTED}"),
        (False, TypeError, f"seed is False (bool); {EXPECTED}"),
        ("7", TypeError, f"seed is '7' (str); {EXPECTED}"),
        (1.5, TypeError, f"seed is 1.5 (float); {EXPECTED}"),
        (-1, ValueError, f"seed is -1; {EXPECTED}"),
        (np.int64(-2), ValueError, f"seed is -2; {EXPECTED}"),
    ],
)
def test_what_is_no_seed_is_refused(value: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        check_seed(value)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, TypeError, "seed is True (bool); expected an int >= 0, a list of 2 seeds, or None."),
        ("77", TypeError, "seed is '77' (str); expected an int >= 0, a list of 2 seeds, or None."),
        (1.5, TypeError, "seed is 1.5 (float); expected an int >= 0, a list of 2 seeds, or None."),
        (-1, ValueError, "seed is -1; expected an int >= 0, a list of 2 seeds, or None."),
    ],
)
def test_what_cannot_seed_two_slots_is_refused(value: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        slot_seeds(value, 2)


@pytest.mark.parametrize(
    ("entry", "kind", "text"),
    [
        (True, TypeError, f"seed[1] is True (bool); {EXPECTED}"),
        ("7", TypeError, f"seed[1] is '7' (str); {EXPECTED}"),
        (-3, ValueError, f"seed[1] is -3; {EXPECTED}"),
    ],
)
def test_a_bad_entry_is_named_by_its_index(entry: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        slot_seeds([0, entry], 2)


def test_one_generator_for_all_is_refused() -> None:
    text = "One generator cannot seed 3 sub-envs independently; give an int, or a list of 3 seeds."
    with pytest.raises(TypeError, match=f"^{text}$"):
        slot_seeds(np.random.default_rng(0), 3)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize("entries", [[1, 2], [1, 2, 3, 4], []])
def test_a_list_of_the_wrong_length_is_refused(entries: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"^seed has {len(entries)} entries; expected 3, one per sub-env\.$"):
        slot_seeds(entries, 3)


def test_one_generator_for_two_slots_is_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"^seed has the same generator twice; "):
        slot_seeds([generator, 1, generator], 3)
    assert slot_seeds([generator, 1, np.random.default_rng(0)], 3)[0] is generator
