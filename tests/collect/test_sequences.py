"""Sequences: written out, and against what the coded observations say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.collect import Collector, SequenceAssembler, Sequences, pad, unpad
from sekai.testing import CodedVecEnv
from tests.collect.envs import MODES, CodedPolicy, Script, ScriptedVecEnv, memory_before
from tests.collect.test_timelines import zeros
from tests.collect.test_truth import SCRIPTS


def collector(scripts: list[Script], mode: str, length: int, stride: int = 1) -> Collector:
    vec = ScriptedVecEnv(scripts, autoreset=mode)
    return Collector(vec, CodedPolicy(), fragment_length=length, values=True, state_stride=stride, infos=["t"])


def rows_of(sequences: Sequences, learned: bool = True) -> list[list[tuple[int, ...]]]:
    """`(slot, episode, step)` of the rows of each sequence."""
    mask = sequences.learn if learned else sequences.mask
    pairs = zip(sequences.observations, mask, strict=True)
    return [[tuple(int(entry) for entry in row) for row in rows[wanted]] for rows, wanted in pairs]


def check(sequences: Sequences, burn_in: int) -> None:
    """What holds of every sequence, read off its observations."""
    for b in range(len(sequences)):
        length = int(sequences.lengths[b])
        assert sequences.mask[b].tolist() == [place < length for place in range(sequences.mask.shape[1])]
        rows = sequences.observations[b, :length]
        slot, episode, first = rows[0]
        assert rows.tolist() == [[slot, episode, first + k] for k in range(length)], "one episode, row after row"
        assert slot == sequences.slots[b]
        lead = length - int(sequences.learn[b].sum())
        assert 0 <= lead <= burn_in and sequences.learn[b, lead:length].all()
        assert sequences.state["sum"][b] == memory_before(first)
        assert sequences.step_index[b, :length].tolist() == rows[:, 2].tolist()
        assert sequences.episode_start[b, :length].tolist() == [first + k == 0 for k in range(length)]
        over = sequences.terminated[b] | sequences.truncated[b]
        assert not over[: length - 1].any()
        assert sequences.trace[b].tolist() == [k < length - 1 for k in range(sequences.mask.shape[1])]
        assert np.flatnonzero(sequences.cut[b]).tolist() == ([] if over[length - 1] else [length - 1])
        assert sequences.bootstrap[b].tolist() == (sequences.mask[b] & ~sequences.terminated[b]).tolist()
        assert sequences.infos["t"][b, :length].tolist() == (rows[:, 2] + 1).tolist()
        assert sequences.next_observations[b, :length, 2].tolist() == (rows[:, 2] + 1).tolist()
        assert sequences.extras["before"][b, :length].tolist() == [memory_before(step) for step in rows[:, 2]]
        assert sequences.values is not None and (sequences.values[b, :length] > 0).all()
        for padded in (sequences.observations, sequences.rewards, sequences.values, sequences.columns["twice"]):
            assert not padded[b, length:].any()
        assert sequences.columns["twice"][b, :length].tolist() == (2 * sequences.rewards[b, :length]).tolist()


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=100)
@given(
    scripts=SCRIPTS,
    rows=st.integers(1, 7),
    length=st.one_of(st.none(), st.integers(1, 4)),
    burn_in=st.integers(0, 3),
)
def test_every_transition_of_a_fragment_is_learned_once(
    mode: str, scripts: list[Script], rows: int, length: int | None, burn_in: int
) -> None:
    burn_in = 0 if length is None else burn_in
    source = collector(scripts, mode, rows)
    for _ in range(2):
        fragment = source.collect()
        sequences = fragment.sequences(length, burn_in, successors=True, columns={"twice": 2 * fragment.rewards})
        check(sequences, burn_in)
        if length is not None:
            assert sequences.mask.shape[1] == length + burn_in and (sequences.learn.sum(axis=1) <= length).all()
        learned = [row for one in rows_of(sequences) for row in one]
        expected = [tuple(row) for slot in range(3) for row in fragment.observations[fragment.valid[:, slot], slot]]
        assert learned == expected


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=100)
@given(
    scripts=SCRIPTS,
    rows=st.lists(st.integers(1, 5), min_size=2, max_size=2),
    length=st.integers(1, 4),
    burn_in=st.integers(0, 3),
)
def test_joined_sequences_do_not_depend_on_where_fragments_end(
    mode: str, scripts: list[Script], rows: list[int], length: int, burn_in: int
) -> None:
    calls = 20
    found = []
    for fragment_length in rows:
        source, assembler = (
            collector(scripts, mode, fragment_length),
            SequenceAssembler(length, burn_in, successors=True),
        )
        learned, whole = [], []
        for _ in range(calls // fragment_length):
            fragment = source.collect()
            sequences = assembler.add(fragment, {"twice": 2 * fragment.rewards})
            fragment.release()
            assert assembler.open_rows <= length - 1 + burn_in
            check(sequences, burn_in)
            learned += rows_of(sequences)
            whole += rows_of(sequences, learned=False)
        rest = assembler.flush()
        assert rest is not None and assembler.open_rows == 0
        check(rest, burn_in)
        last = rows_of(rest)
        assert len({one[0][0] for one in last}) == len(last), "one open piece a slot"
        valid = sorted(row for one in learned + last for row in one)
        assert len(set(valid)) == len(valid) == source.counters.valid
        for one in learned:  # whole, or its episode is over
            slot, episode, step = one[-1]
            assert one[0][2] % length == 0
            assert len(one) == length or step + 1 == scripts[slot][episode % len(scripts[slot])][0]
        for one in whole:
            lead = one[0][2]
            assert lead % length == 0 or (lead + burn_in) % length == 0 or lead == 0
        found.append(set(map(tuple, whole)))
    shorter, longer = sorted(found, key=len)
    slots = {slot: [set(one for one in each if one[0][0] == slot) for each in (shorter, longer)] for slot in range(3)}
    for a, b in slots.values():
        assert a <= b or b <= a


def test_a_picture_written_out() -> None:
    source = collector([[(7, "terminated"), (9, "terminated")]], "next_step", 4)
    source.collect()
    fragment = source.collect()  # a4 a5 a6 R
    assert rows_of(fragment.sequences(3)) == [[(0, 0, 4), (0, 0, 5)], [(0, 0, 6)]]
    assert rows_of(fragment.sequences(3, 1), learned=False) == [[(0, 0, 4), (0, 0, 5)], [(0, 0, 5), (0, 0, 6)]]
    sequences = fragment.sequences(3, 1)
    assert sequences.learn.tolist() == [[True, True, False, False], [False, True, False, False]]
    assert sequences.state["sum"].tolist() == [memory_before(4), memory_before(5)]
    assert repr(sequences) == "Sequences(2 x 4, 4 transitions)" and sequences.episode_id.tolist() == [0, 0]
    assert rows_of(fragment.sequences()) == [[(0, 0, 4), (0, 0, 5), (0, 0, 6)]]


def test_the_second_sequence_of_an_episode_has_the_state_after_the_first() -> None:
    # U39: length 4, episode 10
    fragment = collector([[(10, "terminated")]], "same_step", 10, stride=4).collect()
    assert fragment.sequences(4).state["sum"].tolist() == [0, 1 + 2 + 3 + 4, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8]


def test_a_state_that_was_not_kept_is_an_error() -> None:
    fragment = collector([[(10, "terminated")]], "same_step", 10, stride=4).collect()
    with pytest.raises(LookupError, match=r"slot 0 begins with step 3 of its episode, .* divides length and burn_in"):
        fragment.sequences(3)
    with pytest.raises(LookupError, match="slot 0 begins with step 3 of its episode"):
        fragment.sequences(4, burn_in=1)


def test_a_policy_without_memory_has_no_states() -> None:
    fragment = Collector(CodedVecEnv(2, 3), zeros, fragment_length=4).collect()
    sequences = fragment.sequences(2)
    assert sequences.state is None and sequences.lengths.tolist() == [2, 1, 1] * 2
    assert sequences.next_observations is None and sequences.values is None


def test_fragments_that_do_not_follow_one_another_are_not_joined() -> None:
    source = Collector(CodedVecEnv(1, 9), zeros, fragment_length=3)
    assembler = SequenceAssembler(9)
    assert len(assembler.add(source.collect())) == 0
    source.collect()  # kept from the assembler
    assert rows_of(assembler.add(source.collect())) == [
        [(0, 0, 0), (0, 0, 1), (0, 0, 2)],
        [(0, 0, 6), (0, 0, 7), (0, 0, 8)],
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: f.sequences(0), "length is 0"),
        (lambda f: f.sequences(2, -1), "burn_in is -1"),
        (lambda f: f.sequences(burn_in=2), "burn_in is 2 and length None"),
        (lambda f: f.sequences(2, columns={"x": np.zeros(3)}), r"column 'x' has shape \(3,\); expected \(4, 2\)"),
        (lambda f: SequenceAssembler(0), "length is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(Collector(CodedVecEnv(2, 3), zeros, fragment_length=4).collect())


def test_an_assembler_takes_fragments_of_one_kind() -> None:
    one = Collector(CodedVecEnv(2, 9), zeros, fragment_length=4).collect()
    other = Collector(CodedVecEnv(3, 9), zeros, fragment_length=4).collect()
    assembler = SequenceAssembler(9)
    assembler.add(one)
    with pytest.raises(ValueError, match="3 slots, the one before it 2"):
        assembler.add(other)
    with pytest.raises(ValueError, match=r"columns are \['x'\]; expected \[\]"):
        assembler.add(one, {"x": one.rewards})
    assert SequenceAssembler(3).flush() is None


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 3), st.integers(0, 2**32))
def test_pad_and_unpad_are_inverse(lengths: list[int], more: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(sum(lengths), 2))
    width = max(lengths, default=0) + more
    padded = pad(rows, lengths, width)
    mask = np.arange(width) < np.array(lengths, int)[:, None] if lengths else np.zeros((0, width), bool)
    assert padded.shape == (len(lengths), width, 2) and not padded[~mask].any()
    np.testing.assert_array_equal(unpad(padded, mask), rows)
    np.testing.assert_array_equal(pad(unpad(padded, mask), lengths, width), padded)


def test_pad_written_out_and_its_refusals() -> None:
    assert pad(np.arange(1, 7), [2, 1, 3]).tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    with pytest.raises(ValueError, match="There are 3 rows for lengths that add up to 2"):
        pad(np.arange(3), [2])
    with pytest.raises(ValueError, match="the longest being 3, and a width of 2"):
        pad(np.arange(3), [3], 2)
