"""Infos in shared memory: whatever a worker writes, the caller reads the same dicts, to the type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.vector.board import INFO_BYTES
from sekai.vector.info_columns import InfoReader, InfoWriter, columns_in, form_of
from sekai.vector.infos import Infos, Part, same_value

Row = dict[str, Any]


class Pair:
    """Writers of two workers, with 2 and 3 slots, and their reader."""

    def __init__(self) -> None:
        rows = np.zeros((5, INFO_BYTES), np.uint8)
        self.bounds = [(0, 2), (2, 5)]
        self.writers = [InfoWriter(rows[lo:hi]) for lo, hi in self.bounds]
        self.reader = InfoReader(rows, self.bounds)
        self.pickled = 0

    def send(self, dicts: list[Row]) -> Infos:
        return self.send_infos([Infos.of(dicts[lo:hi]) for lo, hi in self.bounds])

    def send_infos(self, shares: list[Infos]) -> Infos:
        news = [writer.write(infos) for writer, infos in zip(self.writers, shares, strict=True)]
        for worker, part in enumerate(news):
            if part is not None:
                self.reader.learn(worker, part)
        self.pickled = sum(len(part.odd) for part in news if part is not None)
        return self.reader.read(news)


def exactly(a: Any, b: Any) -> bool:
    """Equal in value and type, at every depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(exactly(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and same_value(a, b)
    return same_value(a, b)


def same(infos: Infos, dicts: list[Row]) -> bool:
    return len(infos) == len(dicts) and all(map(exactly, infos, dicts))


def test_regular_infos_travel_as_columns_after_the_first_call() -> None:
    pair = Pair()
    date = np.datetime64("2020-01-01", "D")
    for t in range(3):
        dicts = [
            {"t": 10 * t + i, "x": i / 4, "up": i > 2, "day": date + i, "w": np.array([i, t], np.float32)}
            for i in range(5)
        ]
        assert same(pair.send(dicts), dicts) and pair.pickled == 0
    infos = pair.send(dicts)
    assert infos.stacked is not None and infos.stacked["t"].tolist() == [20, 21, 22, 23, 24]


def test_the_info_of_a_slot_that_ended_is_pickled_and_the_others_are_not() -> None:
    pair = Pair()
    dicts: list[Row] = [{"t": i} for i in range(5)]
    pair.send(dicts)
    dicts[3] = {"t": 9, "final_info": {"t": 8}, "final_observation": np.ones(2), "reset_info": {}}
    infos = pair.send(dicts)
    assert pair.pickled == 1 and same(infos, dicts)
    part = infos.part("reset_info", np.arange(5))
    assert part.slots.tolist() == [3] and part.values == [{}]
    assert same(pair.send([{"t": i} for i in range(5)]), [{"t": i} for i in range(5)]) and pair.pickled == 0


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "i8", "u8", "f4", "f8", "M8[D]", "U3"])
def test_columns_arrive_as_the_dicts_that_they_stand_for(dtype: str) -> None:
    pair = Pair()
    values = np.array([0, 1, 1, 0, 1]).astype(dtype) if dtype != "M8[D]" else np.arange(5).astype(dtype)
    if dtype == "u8":
        values[3] = 2**64 - 1  # more than an int64 holds
    pairs = np.arange(10, dtype=np.float32).reshape(5, 2)

    def shares() -> list[Infos]:
        halves = [Infos(hi - lo, columns={"x": values[lo:hi], "w": pairs[lo:hi]}) for lo, hi in pair.bounds]
        halves[1].put(Part("reset_info", [{"b": "of slot 4"}], np.array([2])))  # the third of its worker
        return halves

    expected = [dict(info) for half in shares() for info in half]
    assert expected[4]["reset_info"] == {"b": "of slot 4"} and type(expected[0]["x"]) is not np.ndarray
    for _ in range(2):
        assert same(pair.send_infos(shares()), expected)
    assert pair.pickled == {"u8": 3, "U3": 5}.get(dtype, 1)


def test_what_was_read_does_not_change_with_the_next_call() -> None:
    pair = Pair()
    first = [{"t": i, "w": np.full(2, i)} for i in range(5)]
    infos = pair.send(first)
    pair.send([{"t": -1, "w": np.full(2, -1)} for _ in range(5)])
    assert same(infos, first)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**70),
        "text",
        None,
        np.float64(0.5),
        np.float32(0.5),
        np.int64(3),
        1j,
        [1, 2],
        {"deep": 1},
        np.array(3.0),
        np.array(["a"]),
        np.array([object()]),
        np.zeros(INFO_BYTES),
        np.array([1.0], ">f8"),
        float("nan"),
        -0.0,
        True,
        np.zeros((0, 2)),
        np.timedelta64(3, "s"),
        np.datetime64("NaT"),
    ],
)
def test_odd_values_come_back_as_they_were(value: Any) -> None:
    pair = Pair()
    dicts: list[Row] = [{"t": i, "v": value} for i in range(5)]
    for _ in range(2):
        assert same(pair.send(dicts), dicts)
    mixed: list[Row] = [{"t": i, "v": value if i == 1 else 1} for i in range(5)]
    for sent in (mixed, [{"t": 0, "v": 1}] * 5, mixed, dicts):
        assert same(pair.send(sent), sent)


VALUES = st.one_of(
    st.integers(-5, 5),
    st.floats(),
    st.booleans(),
    st.just("s"),
    st.integers(0, 3).map(lambda n: np.arange(n)),
    st.integers(0, 3).map(lambda n: np.datetime64(n, "D")),
    st.integers(0, 3).map(lambda n: np.datetime64(n, "s")),
    st.just(2**64),
)
DICTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(st.lists(st.lists(DICTS, min_size=5, max_size=5), min_size=1, max_size=6))
def test_any_infos_come_back_as_they_were(calls: list[list[Row]]) -> None:
    pair = Pair()
    for dicts in calls:
        assert same(pair.send(dicts), dicts)


@given(st.integers(-5, 5), st.lists(st.floats(), min_size=5, max_size=5))
def test_workers_whose_forms_differ_are_told_apart(t: int, values: list[float]) -> None:
    pair = Pair()
    dicts: list[Row] = [{"t": t} for _ in range(2)] + [{"x": value} for value in values[2:]]
    for _ in range(2):
        assert same(pair.send(dicts), dicts)


def test_a_new_worker_tells_its_form_again() -> None:
    pair = Pair()
    dicts: list[Row] = [{"t": i} for i in range(5)]
    pair.send(dicts)
    pair.writers[1] = InfoWriter(pair.reader._rows[2:5])
    pair.reader.forget(1)
    assert same(pair.send(dicts), dicts)


def test_columns_of_a_form_do_not_overlap_and_stay_within_the_rows() -> None:
    info = {"flag": True, "w": np.zeros(3, np.int8), "x": 1.0, "m": np.zeros((2, 3), np.float32), "n": 2}
    form = form_of(info)
    assert form is not None
    rows = np.zeros((7, INFO_BYTES), np.uint8)
    columns = columns_in(rows, form)
    for k, column in enumerate(columns):
        column[...] = k % 2
    assert [column.shape for column in columns] == [(7,), (7, 3), (7,), (7, 2, 3), (7,)]
    for k, column in enumerate(columns):
        assert (column == k % 2).all(), form[k].name


def test_infos_as_large_as_the_room_for_them_have_a_form_and_larger_ones_have_none() -> None:
    whole = (INFO_BYTES - 8) // 8
    assert form_of({"w": np.zeros(whole)}) is not None
    assert form_of({"w": np.zeros(whole + 2)}) is None
