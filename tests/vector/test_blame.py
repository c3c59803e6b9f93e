"""Notes that name the sub-environment an exception came from."""

from __future__ import annotations

import pytest

from sekai.vector.blame import blame, blamed_slot, blaming, raise_first


def test_an_exception_is_blamed_once_on_the_first_slot_named() -> None:
    error = ValueError("x")
    assert blamed_slot(error) is None
    blame(error, 3)
    blame(error, 4)
    assert blamed_slot(error) == 3 and error.__notes__ == ["raised by sub-env 3"]


def test_a_block_blames_its_slot_and_leaves_an_interrupt_alone() -> None:
    with pytest.raises(ValueError) as caught, blaming(2):
        raise ValueError("x")
    assert blamed_slot(caught.value) == 2
    with pytest.raises(KeyboardInterrupt) as stopped, blaming(2):
        raise KeyboardInterrupt
    assert blamed_slot(stopped.value) is None


def test_the_error_of_the_lowest_slot_is_raised_and_all_are_listed() -> None:
    first, second = ValueError("one"), KeyError("four")
    with pytest.raises(ValueError) as caught:
        raise_first({4: second, 1: first}, "needs a reset")
    assert caught.value is first
    assert first.__notes__ == ["raised by sub-env 1", "failed sub-envs: [1, 4]; each needs a reset"]
    alone = ValueError("x")
    with pytest.raises(ValueError):
        raise_first({2: alone})
    assert alone.__notes__ == ["raised by sub-env 2"]
