"""`Infos` is a list of dicts, whatever it is made of."""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.vector.infos import Infos, Part, TakenInfos, same_value, stack

DATES = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")


def by_rows() -> Infos:
    return Infos.of([{"t": 0, "x": 0.5}, {"t": 1, "x": 1.5}, {"t": 2, "x": 2.5}])


def by_columns() -> Infos:
    return Infos(3, columns={"t": np.arange(3), "x": np.arange(3) + 0.5})


def by_parts() -> Infos:
    return Infos(
        3,
        columns={"t": np.arange(3)},
        parts=[Part("x", np.array([0.5, 2.5]), np.array([0, 2])), Part("x", [1.5], np.array([1]))],
    )


@pytest.fixture(params=[by_rows, by_columns, by_parts])
def infos(request: pytest.FixtureRequest) -> Infos:
    made: Infos = request.param()
    return made


def test_it_is_a_list_of_dicts(infos: Infos) -> None:
    expected = [{"t": 0, "x": 0.5}, {"t": 1, "x": 1.5}, {"t": 2, "x": 2.5}]
    assert len(infos) == 3 and infos == expected and list(infos) == expected and infos == by_rows()
    assert infos[0] == expected[0] and infos[-1] == expected[2] and infos[np.int64(1)] == expected[1]
    assert infos[1:] == expected[1:] and infos[::-1] == expected[::-1] and infos[5:] == []
    assert expected[1] in infos and infos.index(expected[2]) == 2 and list(reversed(infos)) == expected[::-1]
    assert repr(infos) == repr(expected)
    with pytest.raises(IndexError):
        infos[3]
    assert infos != expected[:2] and infos != [*expected[:2], {"t": 2}] and infos != 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(infos)


def test_values_in_the_dicts_are_python_scalars(infos: Infos) -> None:
    assert {type(infos[0]["t"]), type(infos[1]["x"])} == {int, float}
    assert {type(value) for row in infos for value in row.values()} == {int, float}


@pytest.mark.parametrize("read", [lambda infos: infos[1], lambda infos: list(infos)[1]])
def test_a_dict_once_made_is_the_truth(infos: Infos, read: Any) -> None:
    row = read(infos)
    row["mine"] = 7
    del row["x"]
    assert infos[1] is row and list(infos)[1] is row and infos[1:2][0] is row
    assert infos[1] == {"t": 1, "mine": 7} and infos[0] == {"t": 0, "x": 0.5}
    values, present = infos.columns["mine"]
    assert present.tolist() == [False, True, False] and values[1] == 7
    assert infos.columns["x"][1].tolist() == [True, False, True]
    assert list(sekai.stack_infos(infos)) == ["t"]


def test_it_pickles_and_copies(infos: Infos) -> None:
    for other in (pickle.loads(pickle.dumps(infos)), copy.deepcopy(infos)):
        assert type(other) is Infos and other == infos and other[0] is not infos[0]


def test_a_key_that_a_slot_lacks_is_absent_and_never_zero() -> None:
    some = Infos(3, parts=[Part("x", np.array([5.0]), np.array([1]))])
    assert list(some) == [{}, {"x": 5.0}, {}] and some.stacked is None
    values, present = some.columns["x"]
    assert present.tolist() == [False, True, False] and values[1] == 5.0
    assert sekai.stack_infos(some) == {}
    assert Infos(2).columns == {} and list(Infos(2)) == [{}, {}] and Infos(0) == []


@pytest.mark.parametrize("unit", ["datetime64[D]", "datetime64[ns]", "timedelta64[h]"])
def test_dates_stay_dates(unit: str) -> None:
    dates = (DATES - DATES[0] if unit.startswith("timedelta") else DATES).astype(unit)
    for infos in (
        Infos(3, columns={"when": dates}),
        Infos(3, parts=[Part("when", dates, np.arange(3))]),
        Infos.of([{"when": date} for date in dates]),
    ):
        assert infos[1]["when"] == dates[1] and infos[1]["when"].dtype == unit
        assert [row["when"].dtype for row in infos] == [np.dtype(unit)] * 3
        assert sekai.stack_infos(infos)["when"].dtype == unit
        assert (infos.columns["when"][0] == dates).all() and infos.columns["when"][0].dtype == unit


def test_array_values_are_rows_of_their_own() -> None:
    column = np.arange(6.0).reshape(3, 2)
    for infos in (Infos(3, columns={"v": column}), Infos(3, parts=[Part("v", column, np.arange(3))])):
        infos[0]["v"][:] = -1
        list(infos)[1]["v"][:] = -1
        assert column.tolist() == [[0, 1], [2, 3], [4, 5]]
        assert infos[2]["v"].tolist() == [4, 5] and isinstance(infos[2]["v"], np.ndarray)


def test_equality_compares_arrays_by_entries_and_takes_nan_as_equal_to_itself() -> None:
    def make(value: Any) -> Infos:
        return Infos.of([{"v": np.array([1.0, np.nan]), "n": {"deep": [np.zeros(2), value]}}])

    assert make(float("nan")) == make(float("nan")) and make(1) == make(1.0)
    assert make(1) != make(2) and make(np.zeros(2)) != make(np.zeros(3)) and make(np.zeros(2)) != make(np.ones(2))
    assert same_value(np.datetime64("NaT"), np.datetime64("NaT")) and not same_value(0.0, float("nan"))
    assert not same_value({"a": 1}, {"b": 1}) and not same_value([1], [1, 2]) and same_value((1, 2), [1, 2])
    assert not same_value(np.zeros(1), None) and not same_value("a", np.array([1.0]))


def test_final_infos_nested_in_parts_are_dicts_of_their_own() -> None:
    inner = Infos(2, columns={"t": np.array([7, 8])})
    infos = Infos(3, columns={"t": np.arange(3)}, parts=[Part("reset_info", inner, np.array([0, 2]))])
    assert list(infos) == [{"t": 0, "reset_info": {"t": 7}}, {"t": 1}, {"t": 2, "reset_info": {"t": 8}}]
    infos[0]["reset_info"]["t"] = 9
    assert infos[2]["reset_info"] == {"t": 8}
    assert infos.columns["reset_info"][0].dtype == object


def test_stacking_keeps_the_order_of_the_first_slot_and_drops_what_not_all_have() -> None:
    rows = [{"b": 1, "a": 2, "only": 3}, {"a": 4, "c": 0, "b": 5}]
    stacked = sekai.stack_infos(rows)
    assert list(stacked) == ["b", "a"] and stacked["b"].tolist() == [1, 5] and stacked["a"].tolist() == [2, 4]
    assert list(sekai.stack_infos(Infos.of(rows))) == ["b", "a"] and sekai.stack_infos([]) == {}


def test_stacking_columns_copies_nothing_until_a_dict_has_been_made() -> None:
    infos = by_columns()
    times = infos.columns["t"][0]
    stacked = sekai.stack_infos(infos)
    assert stacked["t"] is times and list(stacked) == ["t", "x"]
    infos[0]["t"] = 50
    assert sekai.stack_infos(infos)["t"].tolist() == [50, 1, 2] and times.tolist() == [0, 1, 2]


def test_only_values_of_one_kind_stack_the_rest_come_as_objects() -> None:
    assert stack([1, 2.5]).tolist() == [1.0, 2.5] and stack([np.float32(1), np.float32(2)]).dtype == np.float32
    assert stack([True, False]).dtype == bool and stack(["a", "bcd"]).tolist() == ["a", "bcd"]
    assert stack([np.zeros(2), np.ones(2)]).shape == (2, 2)
    for values in (
        [True, 1],
        ["a", 1],
        [np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.zeros(2, int)],
        [{}, {}],
        [None, 1],
    ):
        column = stack(values)
        assert column.dtype == object and column.shape == (2,)
        assert all(type(a) is type(b) for a, b in zip(column, values, strict=True))


def test_a_key_whose_type_changes_between_slots_stays_what_it_is() -> None:
    values, present = Infos.of([{"k": 1}, {"k": "one"}, {}, {"k": np.ones(2)}]).columns["k"]
    assert present.tolist() == [True, True, False, True]
    assert values[0] == 1 and values[1] == "one" and values[3].tolist() == [1, 1]


SCALARS = (
    st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=True)
    | st.booleans()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
    | st.none()
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3), min_size=1, max_size=6)


@given(ROWS)
def test_columns_and_rows_say_the_same(rows: list[dict[str, Any]]) -> None:
    columns = Infos.of([dict(row) for row in rows]).columns
    rebuilt = [
        {name: values[slot] for name, (values, present) in columns.items() if present[slot]}
        for slot in range(len(rows))
    ]
    assert [row.keys() for row in rebuilt] == [row.keys() for row in rows]
    # a column of ints and floats is one of floats, so numbers are compared as such
    for row, again in zip(rows, rebuilt, strict=True):
        for name in row:
            assert same_value(again[name], row[name]) or float(again[name]) == float(row[name])


@given(st.data())
def test_parts_and_rows_say_the_same(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    columns = {"t": np.arange(n)}
    parts, expected = [], [{"t": slot} for slot in range(n)]
    for name in data.draw(st.lists(st.sampled_from("abc"), unique=True)):
        slots = sorted(data.draw(st.sets(st.integers(0, n - 1))))
        parts.append(Part(name, 100.0 + np.array(slots, float), np.array(slots, np.intp)))
        for slot in slots:
            expected[slot][name] = 100.0 + slot  # type: ignore[assignment]  # dicts of mixed numbers

    def make() -> Infos:
        return Infos(n, columns=columns, parts=parts)

    one_by_one, first = make(), data.draw(st.integers(0, n - 1))
    assert one_by_one[first] == expected[first], "one dict made alone"
    assert one_by_one == expected and list(make()) == expected and make()[:] == expected
    for name, (values, present) in make().columns.items():
        assert present.tolist() == [name in row for row in expected]
        assert [values[i] for i in range(n) if present[i]] == [row[name] for row in expected if name in row]


def test_keys_may_be_any_string() -> None:
    keys = ["it's", 'a "quote"', "new\nline", "{x}", "", "class", "1st"]

    def make() -> Infos:
        return Infos(2, columns={key: np.array([i, i + 10]) for i, key in enumerate(keys)})

    assert make()[1] == list(make())[1] == {key: i + 10 for i, key in enumerate(keys)}


def test_keys_of_columns_may_be_any_string():
    """Keys become part of no source text: quotes, members of a string enum and NumPy strings stay what they are."""

    class Key(enum.StrEnum):
        A = "a"

    columns = {Key.A: np.arange(2), "it's": np.arange(2) * 10, np.str_("b"): np.arange(2) * 100}
    assert list(Infos(2, columns=columns)) == [{"a": 0, "it's": 0, "b": 0}, {"a": 1, "it's": 10, "b": 100}]


@pytest.mark.parametrize("infos", [Infos.of([{"t": 1}]), Infos(1, columns={"t": np.ones(1)})])
def test_habits_of_a_dict_of_arrays_get_an_answer(infos: Infos) -> None:
    """`"final_obs" in infos` must not be a silent False, nor an index error speak of ranges."""
    for use in (lambda: "final_obs" in infos, lambda: infos["final_obs"]):  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"^infos is a list of dicts, .*'final_obs'.* final_observation\(i\)"):
            use()
    with pytest.raises(IndexError, match=r"^sub-env 7 of 1; infos has one dict per sub-env\.$"):
        infos[7]
    assert {"t": 1} in infos and {"t": 2} not in infos


def indices(*slots: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.array(slots, np.intp)


def said(part: Part) -> dict[int, Any]:
    """What a part says of each of its slots."""
    return dict(zip(part.slots.tolist(), list(part.values), strict=True))


def before_reading(infos: Infos) -> None:
    """No dict has been made."""


def after_reading_one(infos: Infos) -> None:
    infos[1]


def after_reading_all(infos: Infos) -> None:
    list(infos)


READ = pytest.mark.parametrize("read", [before_reading, after_reading_one, after_reading_all])


@READ
def test_the_part_of_a_key_says_what_the_dicts_of_those_slots_say(infos: Infos, read: Any) -> None:
    read(infos)
    part = infos.part("x", indices(0, 2))
    assert part.name == "x" and part.slots.tolist() == [0, 2] and part.slots.dtype == np.intp
    assert said(part) == {0: 0.5, 2: 2.5}
    assert said(infos.part("t", indices(1, 2))) == {1: 1, 2: 2}
    assert said(infos.part("x", indices(0, 1, 2))) == {0: 0.5, 1: 1.5, 2: 2.5}
    for name, slots in (("absent", indices(0, 1)), ("x", indices())):
        nobody = infos.part(name, slots)
        assert (nobody.name, said(nobody), nobody.slots.dtype) == (name, {}, np.intp)
    assert infos == by_rows(), "and nothing has changed"


def some(values: Any = None) -> Infos:
    """Slots 0 and 2 of 3 have `x`, in parts."""
    values = np.array([0.5, 2.5]) if values is None else values
    return Infos(3, columns={"t": np.arange(3)}, parts=[Part("x", values, indices(0, 2))])


@READ
def test_slots_without_the_key_are_not_in_its_part(read: Any) -> None:
    for infos in (some(), Infos.of(list(some()))):
        read(infos)
        assert said(infos.part("x", indices(0, 1))) == {0: 0.5}
        assert said(infos.part("x", indices(1))) == {}
        assert said(infos.part("x", indices(0, 1, 2))) == {0: 0.5, 2: 2.5}
        assert said(infos.part("x", indices(0, 2))) == {0: 0.5, 2: 2.5}


def test_a_part_of_the_very_slots_is_handed_out_unread() -> None:
    inner = Infos(2, columns={"a": np.arange(2)})
    infos = some(inner)
    part = infos.part("x", indices(0, 2))
    assert part.values is inner and inner.stacked is not None, "nothing was built"
    infos[0]["x"] = "mine"  # from now on the dicts are the truth
    assert said(infos.part("x", indices(0, 2))) == {0: "mine", 2: {"a": 1}}


def test_a_dict_that_was_changed_is_what_its_part_says() -> None:
    for infos in (by_rows(), by_columns(), by_parts()):
        infos[0]["x"] = 7
        del infos[2]["x"]
        assert said(infos.part("x", indices(0, 1, 2))) == {0: 7, 1: 1.5}


@READ
@pytest.mark.parametrize("slots", [(0, 2), (1,), (0, 1, 2), (), (1, 2)], ids=str)
@pytest.mark.parametrize("name", ["x", "t", "new"])
@pytest.mark.parametrize("kind", [np.array, list, tuple])
def test_what_is_put_is_what_the_dicts_say(
    infos: Infos, read: Any, slots: tuple[int, ...], name: str, kind: Any
) -> None:
    read(infos)
    infos.put(Part(name, kind([100.5 + slot for slot in slots]), indices(*slots)))
    expected = [{"t": slot, "x": slot + 0.5} for slot in range(3)]
    for slot in slots:
        expected[slot][name] = 100.5 + slot
    assert [infos[slot] for slot in range(3)] == expected
    assert infos == expected and infos[:] == expected and pickle.loads(pickle.dumps(infos)) == expected
    assert all(type(infos[slot][name]) is float for slot in slots)
    # where every slot has both keys, they are stacked as ever
    assert infos.columns["x"][0].tolist() == [row["x"] for row in expected]
    assert said(infos.part(name, indices(*slots))) == {slot: 100.5 + slot for slot in slots}


@READ
@pytest.mark.parametrize("slots", [(0, 2), (0,), (1,), (0, 1, 2), (1, 2)], ids=str)
def test_over_a_part_of_equal_and_of_other_slots(read: Any, slots: tuple[int, ...]) -> None:
    infos = some()
    read(infos)
    infos.put(Part("x", np.array([-1.0 - slot for slot in slots]), indices(*slots)))
    expected: list[dict[str, Any]] = [{"t": 0, "x": 0.5}, {"t": 1}, {"t": 2, "x": 2.5}]
    for slot in slots:
        expected[slot]["x"] = -1.0 - slot
    assert infos[1] == expected[1] and list(infos) == expected
    assert infos.columns["x"][1].tolist() == ["x" in row for row in expected]
    infos.put(Part("x", ["again"], indices(2)))
    assert infos[2] == {"t": 2, "x": "again"} and infos[0] == expected[0], "and over that once more"


def test_a_part_that_replaces_another_makes_no_dict_and_leaves_what_was_given() -> None:
    beside, old = Part("y", [6, 7], indices(0, 1)), Part("x", np.array([0.5, 2.5]), indices(0, 2))
    parts = [beside, old]
    infos = Infos(3, columns={"t": np.arange(3)}, parts=parts)
    new, more = Part("x", np.array([8.0, 9.0]), indices(0, 2)), Part("z", ["z"], indices(0))
    infos.put(new)
    infos.put(more)
    assert infos.part("x", indices(0, 2)) is new and infos.part("z", indices(0)) is more
    assert parts == [beside, old], "the list belongs to whoever gave it"
    assert list(infos) == [{"t": 0, "y": 6, "x": 8.0, "z": "z"}, {"t": 1, "y": 7}, {"t": 2, "x": 9.0}]
    assert list(infos[0]) == ["t", "y", "x", "z"], "a key keeps its place, and a new one comes last"


def test_put_changes_the_dict_that_somebody_holds() -> None:
    for infos in (by_rows(), by_columns(), by_parts()):
        row = infos[1]
        infos.put(Part("x", [9.5], indices(1)))
        infos.put(Part("new", ["n"], indices(1)))
        assert row == {"t": 1, "x": 9.5, "new": "n"} and infos[1] is row


def test_columns_are_not_written_to() -> None:
    infos = by_columns()
    values = infos.columns["x"][0]
    infos.put(Part("x", [9.5], indices(1)))
    assert values.tolist() == [0.5, 1.5, 2.5] and infos.columns["x"][0].tolist() == [0.5, 9.5, 2.5]


def test_rows_of_an_array_that_was_put_are_arrays_of_their_own() -> None:
    for infos in (Infos(3), by_columns(), by_rows()):
        values = np.arange(4.0).reshape(2, 2)
        infos.put(Part("v", values, indices(0, 2)))
        infos[0]["v"][:] = -1
        list(infos)[2]["v"][:] = -2
        assert values.tolist() == [[0, 1], [2, 3]]
        assert infos[0]["v"].tolist() == [-1, -1] and infos[2]["v"].tolist() == [-2, -2]


def test_infos_that_were_put_are_dicts() -> None:
    given = Infos(3, columns={"a": np.array([5, 6, 7])})
    for values, codes in ((Infos(2, columns={"a": np.arange(2)}), (0, 1)), (TakenInfos(given, indices(0, 2)), (5, 7))):
        for infos in (Infos(3), by_rows(), by_parts()):
            infos.put(Part("final_info", values, indices(0, 2)))
            assert [row.get("final_info") for row in infos] == [{"a": codes[0]}, None, {"a": codes[1]}]


def test_too_few_values_are_not_put() -> None:
    infos = by_rows()
    with pytest.raises(ValueError, match="shorter"):
        infos.put(Part("t", [1], indices(0, 2)))


@given(ROWS, st.data())
def test_putting_and_reading_parts_is_setting_and_reading_keys(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    n, expected = len(rows), [dict(row) for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    having = {name: [slot for slot in range(n) if name in rows[slot]] for name in names}
    backed = Infos(
        n, parts=[Part(name, [rows[slot][name] for slot in slots], indices(*slots)) for name, slots in having.items()]
    )
    infos = data.draw(st.sampled_from([backed, Infos.of([dict(row) for row in rows])]))
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from("abcd"))
        slots = sorted(data.draw(st.sets(st.integers(0, n - 1)) | st.just(set(having.get(name, ())))))
        action = data.draw(st.sampled_from(["put", "part", "read"]))
        if action == "put":
            values = [data.draw(SCALARS) for _ in slots]
            infos.put(Part(name, values, indices(*slots)))
            for slot, value in zip(slots, values, strict=True):
                expected[slot][name] = value
        elif action == "part":
            found = said(infos.part(name, indices(*slots)))
            assert same_value(found, {slot: expected[slot][name] for slot in slots if name in expected[slot]})
        else:
            slot = data.draw(st.integers(0, n - 1))
            assert same_value(infos[slot], expected[slot])
    assert infos == expected


def test_a_part_of_columns_is_cut_from_them_and_a_part_beside_a_column_wins() -> None:
    columns = {"a": np.array([1.0, 2.0, 3.0])}
    two = np.array([0, 2])
    assert Infos(3, columns=columns).part("a", two).values.tolist() == [1.0, 3.0]
    beside = Infos(3, columns=columns, parts=[Part("a", [9.0], np.array([2]))])
    assert list(beside.part("a", two).values) == [1.0, 9.0]
    apart = Infos(3, parts=[Part("a", [5.0], np.array([1])), Part("a", [6.0, 7.0], two)])
    assert apart.part("a", two).values == [6.0, 7.0]
