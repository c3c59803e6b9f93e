"""Running mean and variance: against NumPy on all rows at once, in Python and in machine code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.stats import RunningStats, StatsTree, running
from sekai.stats.running import discount_and_scale, merged, standardize_into, sum_up, take_in, tiled
from sekai.stats.state import Freezable, check_state

SHAPES = st.sampled_from([(), (1,), (3,), (2, 2), (0,)])
SIZES = st.lists(st.sampled_from([0, 1, 2, 7, 400]), min_size=1, max_size=6)


def draw(seed: int, sizes: list[int], shape: tuple[int, ...], offset: float = 0.0) -> list[NDArray[np.float64]]:
    """Batches of `offset + N(0, 1)`."""
    rng = np.random.default_rng(seed)
    return [offset + rng.normal(size=(n, *shape)) for n in sizes]


def fed(batches: list[Any], shape: tuple[int, ...] = (), **arguments: Any) -> RunningStats:
    stats = RunningStats(shape, **arguments)
    for batch in batches:
        stats.update(batch)
    return stats


def same_state(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def direct(batches: list[NDArray[np.float64]], halflife: float | None) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Mean, variance and weight with all rows weighed: `0.5**(k / halflife) / n` for each row of the k-th last batch.

    Batches without rows count for nothing, not even for age. Without a half-life every row weighs 1.
    """
    filled = [batch for batch in batches if len(batch)]
    ages = range(len(filled) - 1, -1, -1)
    shares = [
        np.ones(len(batch)) if halflife is None else np.full(len(batch), 0.5 ** (k / halflife) / len(batch))
        for k, batch in zip(ages, filled, strict=True)
    ]
    weights = np.concatenate(shares)
    rows = np.concatenate(filled)
    column = weights.reshape(-1, *[1] * (rows.ndim - 1))
    mean = (column * rows).sum(0) / weights.sum()
    return mean, (column * (rows - mean) ** 2).sum(0) / weights.sum(), float(weights.sum())


# Equal weights


def test_three_rows_in_two_batches_have_the_mean_and_variance_of_three_rows() -> None:
    stats = fed([[1.0, 2.0], [6.0]])
    # mean (1 + 2 + 6) / 3 = 3; variance (4 + 1 + 9) / 3 = 14 / 3, not 14 / 2 = 7 (ddof=1)
    assert (float(stats.mean), float(stats.var), stats.count) == (3.0, pytest.approx(14 / 3, rel=1e-15), 3.0)
    # and not the means of the batches' means, (1.5 + 6) / 2, and variances, (0.25 + 0) / 2
    assert float(stats.mean) != 3.75 and float(stats.var) != 0.125


@settings(max_examples=80)
@given(SHAPES, SIZES, st.sampled_from([0.0, -3.0, 1e6]), st.integers(0, 2**32 - 1))
def test_batches_have_together_the_mean_and_variance_of_all_their_rows(
    shape: tuple[int, ...], sizes: list[int], offset: float, seed: int
) -> None:
    batches = draw(seed, sizes, shape, offset)
    stats, rows = fed(batches, shape), np.concatenate(batches)
    assert stats.count == len(rows) == sum(sizes)
    assert np.shape(stats.mean) == np.shape(stats.var) == shape
    if len(rows):
        np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-9, atol=1e-9)
        # the variance drawn from is 1; that of two rows alone may be far smaller than the rounding of 1e6
        np.testing.assert_allclose(stats.var, rows.var(0), rtol=1e-9, atol=1e-9)
    else:
        assert (stats.mean == 0).all() and (stats.var == 1).all()


def test_a_large_offset_leaves_the_digits_that_a_sum_of_squares_loses() -> None:
    batches = draw(0, [100, 37, 400], (), 1e6)
    rows = np.concatenate(batches)
    assert float(fed(batches).var) == pytest.approx(rows.var(), rel=1e-9)
    plain = sum(float(np.sum(batch**2)) for batch in batches) / len(rows) - float(rows.mean()) ** 2
    assert plain != pytest.approx(rows.var(), rel=1e-6)


def test_rows_that_are_all_equal_have_next_to_no_variance_and_none_below_zero() -> None:
    stats = fed([np.full(3, 0.1), np.full(5, 0.1), np.full(2000, 0.1)])
    assert float(stats.mean) == pytest.approx(0.1, rel=1e-15)
    assert 0.0 <= float(stats.var) < 1e-30


def test_before_the_first_row_the_mean_is_zero_and_the_variance_one() -> None:
    stats = RunningStats((2,))
    assert (stats.mean.tolist(), stats.var.tolist(), stats.count) == ([0.0, 0.0], [1.0, 1.0], 0.0)
    stats.update([[4.0, 5.0]])
    # the one that stood for "nothing yet" has no weight: not (1 + 0) / 2 either
    assert (stats.mean.tolist(), stats.var.tolist(), stats.count) == ([4.0, 5.0], [0.0, 0.0], 1.0)


@pytest.mark.parametrize("halflife", [None, 3.0])
@pytest.mark.parametrize("shape", [(), (2, 2), (1100,)], ids=str)
def test_rows_that_come_one_at_a_time_are_averaged_as_any_batch(shape: tuple[int, ...], halflife: float | None) -> None:
    batches = draw(11, [1, 1, 1, 4, 1], shape, 1e3)
    stats = fed(batches, shape, halflife=halflife)
    mean, var, weight = direct(batches, halflife)
    assert np.shape(stats.mean) == np.shape(stats.var) == shape
    assert stats.count == pytest.approx(weight, rel=1e-12)
    np.testing.assert_allclose(stats.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(stats.var, var, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32, ">f8"])
def test_rows_of_any_real_dtype_are_averaged_in_double_precision(dtype: Any) -> None:
    rows = np.array([[0, 1], [1, 1], [1, 0], [1, 1]]).astype(dtype)
    stats = fed([rows[:1], rows[1:]], (2,))
    # means 3/4; variances 3/4 * 1/4 = 3/16
    np.testing.assert_allclose(stats.mean, [0.75, 0.75], rtol=1e-15)
    np.testing.assert_allclose(stats.var, [0.1875, 0.1875], rtol=1e-15)
    assert stats.mean.dtype == stats.var.dtype == np.float64


def test_small_unsigned_rows_do_not_wrap() -> None:
    # 250 + 250 is 244 in uint8, and 0 - 250 is 6: mean 500/3, variance of [0, 250, 250] = 2 * 250**2 / 9
    stats = fed([np.array([0], np.uint8), np.array([250, 250], np.uint8)])
    assert (float(stats.mean), float(stats.var)) == (pytest.approx(500 / 3), pytest.approx(125000 / 9))


# Exponential weights


@settings(max_examples=60)
@given(
    st.sampled_from([(), (3,), (2, 2)]),
    SIZES.filter(any),
    st.sampled_from([0.0, 1e6]),
    st.sampled_from([0.25, 1.0, 2.5, 1000.0]),
    st.integers(0, 2**32 - 1),
)
def test_every_batch_weighs_half_as_much_after_a_halflife_whatever_its_size(
    shape: tuple[int, ...], sizes: list[int], offset: float, halflife: float, seed: int
) -> None:
    batches = draw(seed, sizes, shape, offset)
    stats = fed(batches, shape, halflife=halflife)
    mean, var, weight = direct(batches, halflife)
    assert stats.count == pytest.approx(weight, rel=1e-12)
    np.testing.assert_allclose(stats.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stats.var, var, rtol=1e-9, atol=1e-9)


def test_two_batches_of_different_size_under_a_halflife_of_one() -> None:
    stats = fed([[0.0], [3.0, 3.0, 3.0]], halflife=1.0)
    # weights 1/2 and 1: mean (0 * 1/2 + 3 * 1) / (3/2) = 2; variance (4 * 1/2 + 1 * 1) / (3/2) = 2
    assert (float(stats.mean), float(stats.var), stats.count) == (pytest.approx(2.0), pytest.approx(2.0), 1.5)
    # rows weighed one by one would give weights 1/2, 1, 1, 1 and the mean 9 / 3.5
    assert float(stats.mean) != pytest.approx(9 / 3.5)


def test_the_halflife_is_one_of_updates() -> None:
    stats = fed([[0.0]], halflife=4.0)
    for _ in range(4):
        stats.update([1.0])
    # after 4 updates the 0 weighs 1/2 beside 1 + 2**-0.25 + 2**-0.5 + 2**-0.75
    rest = 1 + 2**-0.25 + 2**-0.5 + 2**-0.75
    assert (float(stats.mean), stats.count) == (pytest.approx(rest / (rest + 0.5)), pytest.approx(rest + 0.5))


@pytest.mark.parametrize("halflife", [None, 2.0])
def test_a_batch_of_no_rows_changes_nothing(halflife: float | None) -> None:
    stats = fed([[[1.0, 2.0], [5.0, 6.0]], [[1.0, 1.0]]], (2,), halflife=halflife)
    before = stats.state_dict()
    for _ in range(3):
        stats.update(np.empty((0, 2)))
        stats.take(stats.with_rows(np.empty((0, 2))))
    assert same_state(stats.state_dict(), before)


@pytest.mark.parametrize("halflife", [0.0, -1.0, math.inf, math.nan])
def test_a_halflife_that_is_no_positive_number_is_refused(halflife: float) -> None:
    with pytest.raises(ValueError, match=rf"^halflife is {halflife!r}; expected a positive number of updates\.$"):
        RunningStats(halflife=halflife)


@pytest.mark.parametrize("halflife", [1e-320, 1e-3, 1e300])
def test_halflives_at_the_ends_of_the_numbers_are_kept_to(halflife: float) -> None:
    stats = fed([[1.0], [3.0]], halflife=halflife)
    # at one end only the last batch is left, at the other all weigh alike
    assert (float(stats.mean), stats.count) == ((2.0, 2.0) if halflife > 1.0 else (3.0, 1.0))


# Machine code


def numpy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep batches of any size from machine code."""
    monkeypatch.setattr(running, "LARGE", 10**9)


def compiled_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Filled with an entry per call of a kernel's machine code."""
    calls: list[int] = []
    machine: Callable[..., Any] = getattr(running, name).compiled

    def counted(*arguments: Any) -> Any:
        calls.append(len(arguments[0]))
        return machine(*arguments)

    monkeypatch.setattr(getattr(running, name), "compiled", counted)
    return calls


#: rows and shape of a large batch: whole runs only, a rest, two wide rows, fewer columns than a run and more
LARGE_BATCHES = [(1024, ()), (1025, ()), (2049, (3,)), (513, (2, 2)), (2, (1024,)), (9, (200,)), (16, (8, 8))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "shape"), LARGE_BATCHES, ids=str)
def test_large_batches_in_machine_code_have_the_mean_and_variance_of_numpy(
    n: int, shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = compiled_calls(monkeypatch, "take_in")
    batches = [batch.astype(dtype) for batch in draw(3, [n, n], shape, 50.0)]
    machine = fed(batches, shape)
    assert calls == [n, n]
    numpy_only(monkeypatch)
    plain = fed(batches, shape)
    assert calls == [n, n]
    rows = np.concatenate(batches).astype(np.float64)
    for stats in (machine, plain):
        np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(stats.var, rows.var(0), rtol=1e-9, atol=1e-12)
        assert np.shape(stats.mean) == shape and stats.count == 2 * n
    np.testing.assert_allclose(machine.mean, plain.mean, rtol=1e-13)
    np.testing.assert_allclose(machine.var, plain.var, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_batches_with_a_large_offset_keep_their_digits(dtype: Any) -> None:
    batches = [batch.astype(dtype) for batch in draw(5, [2000, 1500], (2,), 1e6)]
    stats, rows = fed(batches, (2,)), np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats.var, rows.var(0), rtol=1e-9)


def test_large_batches_under_a_halflife_equal_the_direct_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiled_calls(monkeypatch, "take_in")
    batches = draw(6, [2000, 3, 600], (2,))
    stats = fed(batches, (2,), halflife=1.5)
    mean, var, weight = direct(batches, 1.5)
    assert calls == [2000, 600]  # 3 rows of 2 are no large batch
    np.testing.assert_allclose(stats.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(stats.var, var, rtol=1e-12)
    assert stats.count == pytest.approx(weight, rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint8, ">f8"])
def test_large_batches_of_other_dtypes_never_reach_machine_code(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, standardized = (compiled_calls(monkeypatch, name) for name in ("take_in", "standardize_into"))
    rows = (np.arange(3000).reshape(1500, 2) % 7).astype(dtype)
    stats = fed([rows], (2,))
    np.testing.assert_allclose(stats.mean, rows.astype(float).mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats.var, rows.astype(float).var(0), rtol=1e-12)
    stats.standardize(rows, 1e-8, None, np.float32)
    assert taken == standardized == []
    stats.standardize(rows.astype(np.float32), 1e-8, None, np.float32)
    assert standardized == [3000], "and those of its own dtypes do"


def test_rows_in_any_memory_order_are_the_same_rows() -> None:
    rows = draw(7, [1000], (4,))[0]
    expected = fed([rows], (4,)).state_dict()
    locked = rows.copy()
    locked.setflags(write=False)
    for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], locked):
        stats = fed([other], (4,))
        assert same_state(stats.state_dict(), expected)
        np.testing.assert_array_equal(
            stats.standardize(other, 1e-8, 1.0, np.float64), stats.standardize(rows, 1e-8, 1.0, np.float64)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "width"), [(1025, 1), (350, 3), (6, 200)])
def test_the_kernels_give_in_machine_code_the_bits_of_their_python(n: int, width: int, dtype: Any) -> None:
    rows = draw(8, [n], (width,), 3.0)[0].astype(dtype)
    rng = np.random.default_rng(9)
    shift, mean, var = rows[0].astype(np.float64), rng.normal(size=width), rng.uniform(0.5, 2.0, size=width)
    python, machine = np.full((2, 2, width), np.nan)
    finite = [take_in(rows, shift, mean, var, 0.25, python), take_in.compiled(rows, shift, mean, var, 0.25, machine)]
    assert finite == [True, True]
    np.testing.assert_array_equal(machine, python)
    # a quarter of the weight: the mean is three quarters old
    np.testing.assert_allclose(python[0], 0.75 * mean + 0.25 * rows.astype(float).mean(0), rtol=1e-12)

    python, machine = np.zeros((2, 2, width))
    sum_up(rows.reshape(-1), shift, python)
    sum_up.compiled(rows.reshape(-1), shift, machine)
    np.testing.assert_array_equal(machine, python)
    np.testing.assert_allclose(python[0], (rows - shift).sum(0), rtol=1e-10)
    np.testing.assert_allclose(python[1], ((rows - shift) ** 2).sum(0), rtol=1e-10)

    flat = rows.reshape(-1)
    first, second = np.zeros(flat.shape, dtype), np.zeros(flat.shape, dtype)
    standardize_into(flat, mean, var, 1e-8, 2.0, first)
    standardize_into.compiled(flat, mean, var, 1e-8, 2.0, second)
    np.testing.assert_array_equal(second, first)
    expected = np.clip((rows - mean) / np.sqrt(var + 1e-8), -2, 2)
    np.testing.assert_allclose(first.reshape(n, width), expected, rtol=0, atol=1e-6)


def test_returns_are_taken_in_before_rewards_are_scaled_in_python_and_in_machine_code() -> None:
    returns, rewards, mean, var = np.array([2.0, 4.0]), np.array([1.0, -6.0]), np.array([1.0]), np.array([2.0])
    for call in (discount_and_scale, discount_and_scale.compiled):
        new, moved, scaled = np.full((2, 1), np.nan), np.full(2, np.nan), np.full(2, np.nan)
        assert call(returns, rewards, 0.5, mean, var, 0.5, new, 0.75, 2.0, moved, scaled)
        # returns 0.5 * 2 + 1 = 2 and 0.5 * 4 - 6 = -4: mean -1, variance 9; half the weight, 2 away from the mean 1
        assert moved.tolist() == [2.0, -4.0]
        assert new.tolist() == [[0.0], [0.5 * 2 + 0.5 * 9 + 2.0**2 / 4]]
        # 6.5 and an epsilon of 0.75 make the root of 7.25: 1 / 2.6926, and -6 / 2.6926 is held to -2
        assert scaled.tolist() == [1 / np.sqrt(7.25), -2.0]
        moved[:] = scaled[:] = 0.0
        with np.errstate(invalid="ignore"):
            assert not call(returns, np.array([1.0, np.inf]), 0.5, mean, var, 0.5, new, 0.75, 2.0, moved, scaled)
        assert scaled.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("clip", [None, 0.5])
def test_large_batches_of_returns_are_those_of_numpy(clip: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiled_calls(monkeypatch, "discount_and_scale")
    batches = draw(11, [1024] * 4, (), 3.0)
    machine, returns = RunningStats(), np.zeros(1024)
    pooled = np.empty(0)
    for rewards in batches:
        taken = machine.take_returns_and_scale(returns, rewards, 0.9, 1e-8, clip)
        assert taken is not None
        expected = 0.9 * returns + rewards
        returns, scaled = taken
        pooled = np.concatenate([pooled, expected])
        np.testing.assert_array_equal(returns, expected)
        plain = rewards / np.sqrt(pooled.var() + 1e-8)
        np.testing.assert_allclose(scaled, plain if clip is None else np.clip(plain, -clip, clip), rtol=1e-9)
    assert len(calls) == 3, "the first batch has no mean to count from"
    before = machine.state_dict()
    assert machine.take_returns_and_scale(returns, np.full(1024, np.nan), 0.9, 1e-8, clip) is None
    assert same_state(machine.state_dict(), before)


def test_the_sums_add_to_what_stands_there() -> None:
    sums = np.array([[100.0, 200.0], [300.0, 400.0]])
    sum_up(np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 1.0]), sums)
    # columns [1, 3] and [2, 5] less 1: [0, 2] and [1, 4]; sums 2 and 5, squares 4 and 17
    assert sums.tolist() == [[102.0, 205.0], [304.0, 417.0]]


def test_the_small_kernels_equal_their_machine_code() -> None:
    arguments = (np.array([1.0]), np.array([2.0]), np.array([4.0]), np.array([6.0]), 0.25)
    # mean 1 + 3/4; variance 2 * 3/4 + 6 * 1/4 + 9 * 3/16 = 1.5 + 1.5 + 1.6875
    assert [float(x[0]) for x in merged(*arguments)] == [1.75, 4.6875]
    assert [float(x[0]) for x in merged.compiled(*arguments)] == [1.75, 4.6875]
    values = np.array([1.0, 2.0])
    for function in (tiled, tiled.compiled):
        assert function(values, 2, np.dtype(np.float64)).tolist() == [1.0, 2.0, 1.0, 2.0]


# What is refused


BAD = [math.nan, math.inf, -math.inf, 1e200]
NOT_FINITE = r"^rows hold NaN, an infinity, or numbers whose square is one: they have no mean\.$"


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("n", [1, 4, 2000])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("halflife", [None, 2.0])
def test_rows_without_a_mean_are_refused_and_nothing_is_taken_in(
    bad: float, n: int, first: bool, halflife: float | None
) -> None:
    stats = RunningStats((2,), halflife=halflife)
    if not first:
        stats.update(draw(1, [5], (2,))[0])
    before = stats.state_dict()
    for place in (0, n // 2, n - 1):
        rows = draw(2, [n], (2,))[0]
        rows[place, 1] = bad
        assert not stats.with_rows(rows).finite
        with pytest.raises(ValueError, match=NOT_FINITE):
            stats.update(rows)
        assert same_state(stats.state_dict(), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("shape", [(), (2,), (2000,)], ids=str)
def test_a_single_row_without_a_mean_is_refused_and_not_taken_in(
    bad: float, first: bool, shape: tuple[int, ...]
) -> None:
    stats = RunningStats(shape, halflife=2.0)
    if not first:
        stats.update(draw(1, [5], shape)[0])
    before, row = stats.state_dict(), draw(2, [1], shape)[0]
    row.reshape(-1)[-1] = bad
    with pytest.raises(ValueError, match=NOT_FINITE):
        stats.update(row)
    assert same_state(stats.state_dict(), before)


@pytest.mark.parametrize("n", [3, 2000])
def test_the_largest_single_precision_numbers_are_taken_in(n: int) -> None:
    rows = np.full((n, 2), np.finfo(np.float32).max)
    rows[::2] *= -1
    stats, wide = fed([rows], (2,)), rows.astype(np.float64)
    # their square is infinite in float32 and 1e77 in float64
    np.testing.assert_allclose(stats.var, wide.var(0), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "rows", "text"),
    [
        ((), 1.0, "rows have shape (); expected (n, *())."),
        ((), [[1.0]], "rows have shape (1, 1); expected (n, *())."),
        ((2,), [1.0, 2.0], "rows have shape (2,); expected (n, *(2,))."),
        ((2,), [[1.0]], "rows have shape (1, 1); expected (n, *(2,))."),
        ((2,), [], "rows have shape (0,); expected (n, *(2,))."),
    ],
)
def test_rows_of_another_shape_are_refused_and_never_broadcast(shape: tuple[int, ...], rows: Any, text: str) -> None:
    stats = RunningStats(shape)
    before = stats.state_dict()
    with pytest.raises(ValueError) as raised:
        stats.update(rows)
    assert str(raised.value) == text
    assert same_state(stats.state_dict(), before)


def test_what_the_statistics_would_become_changes_them_only_when_taken() -> None:
    stats = fed([[1.0, 2.0]])
    before, mean = stats.state_dict(), stats.mean
    taken = stats.with_rows(np.array([6.0]))
    assert same_state(stats.state_dict(), before)
    stats.take(taken)
    # as in the module: 3 and 14 / 3
    assert (float(stats.mean), float(stats.var), stats.count) == (3.0, pytest.approx(14 / 3), 3.0)
    assert float(mean) == 1.5, "who holds an earlier mean sees it unchanged"


def test_arrays_held_from_before_an_update_do_not_change() -> None:
    for n in (2, 2000):
        stats = fed([np.ones((n, 2))], (2,))
        mean, var = stats.mean, stats.var
        stats.update(np.full((n, 2), 5.0))
        assert (mean.tolist(), var.tolist()) == ([1.0, 1.0], [0.0, 0.0])
        assert stats.mean.tolist() == [3.0, 3.0]


# Standardizing


def four() -> RunningStats:
    """Mean 2, variance 4."""
    return fed([[0.0, 4.0]])


@pytest.mark.parametrize("times", [1, 1024], ids=["numpy", "machine"])
def test_values_are_shifted_by_the_mean_and_scaled_by_the_deviation(times: int) -> None:
    values = np.array([2.0, 4.0, -4.0] * times)
    # (2 - 2) / 2, (4 - 2) / 2, (-4 - 2) / 2; epsilon 5 is added to the variance: / 3
    np.testing.assert_array_equal(four().standardize(values, 1e-300, None, np.float64), [0.0, 1.0, -3.0] * times)
    given = four().standardize(values, 5.0, None, np.float64)
    np.testing.assert_allclose(given, [0.0, 2 / 3, -2.0] * times, rtol=1e-15)
    # not added to the deviation: 2 + 5
    assert given[1] != pytest.approx(2 / 7)


@pytest.mark.parametrize("times", [1, 1024], ids=["numpy", "machine"])
def test_what_comes_back_is_clipped_and_nan_stays_nan(times: int) -> None:
    values = np.array([3.0, 8.0, -8.0, math.nan, math.inf, -math.inf] * times)
    # 0.5, 3, -5 before the clip, which is one of the result and not of the value
    given = four().standardize(values, 1e-300, 2.5, np.float64)
    np.testing.assert_array_equal(given, [0.5, 2.5, -2.5, math.nan, 2.5, -2.5] * times)
    free = four().standardize(values, 1e-300, None, np.float64)
    np.testing.assert_array_equal(free, [0.5, 3.0, -5.0, math.nan, math.inf, -math.inf] * times)


@pytest.mark.parametrize("shape", [(3,), (1024, 3)])
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("wanted", [np.float32, np.float64])
def test_the_result_has_the_dtype_asked_for_and_the_shape_given(shape: Any, given: Any, wanted: Any) -> None:
    stats = fed(draw(4, [50], (3,), 2.0), (3,))
    values = draw(5, [1024], (3,))[0].astype(given)[: shape[0]] if len(shape) > 1 else np.ones(3, given)
    before = values.copy()
    out = stats.standardize(values, 1e-8, None, wanted)
    assert (out.dtype, out.shape) == (np.dtype(wanted), shape)
    assert not np.shares_memory(out, values)
    np.testing.assert_array_equal(values, before)
    exact = (values.astype(np.float64) - stats.mean) / np.sqrt(stats.var + 1e-8)
    np.testing.assert_allclose(out, exact, rtol=0, atol=1e-14 if given == wanted == np.float64 else 2e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, np.bool_, np.float32])
@pytest.mark.parametrize("n", [2, 2000])
def test_values_of_any_real_dtype_are_standardized(dtype: Any, n: int) -> None:
    out = fed([np.array([0.0, 2.0])]).standardize((np.arange(n) % 2).astype(dtype), 1e-300, None, np.float32)
    # mean 1, variance 1: 0 and 1 become -1 and 0, and no unsigned number wraps
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, [-1.0, 0.0] * (n // 2))


@pytest.mark.parametrize("lead", [(), (2,), (2, 5), (40, 50)])
def test_any_axes_may_stand_before_those_of_a_row(lead: tuple[int, ...]) -> None:
    stats = fed(draw(4, [50], (2, 2), 2.0), (2, 2))
    values = draw(5, [1], (*lead, 2, 2))[0][0] if not lead else draw(5, [lead[0]], (*lead[1:], 2, 2))[0]
    out = stats.standardize(values, 1e-8, 1.0, np.float64)
    assert out.shape == (*lead, 2, 2)
    expected = np.clip((values - stats.mean) / np.sqrt(stats.var + 1e-8), -1, 1)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


def test_before_the_first_row_values_come_back_as_they_are() -> None:
    for values in (np.array([3.0, -5.0]), draw(6, [2000], ())[0]):
        # 1 / sqrt(1 + 1e-300) is 1
        np.testing.assert_array_equal(RunningStats().standardize(values, 1e-300, None, np.float64), values)


def test_a_variance_of_zero_divides_by_the_root_of_epsilon() -> None:
    stats = fed([[2.0, 2.0]])
    for n in (1, 2000):
        # (3 - 2) / sqrt(0 + 0.0625) = 4
        np.testing.assert_array_equal(stats.standardize(np.full(n, 3.0), 0.0625, None, np.float64), np.full(n, 4.0))


# States


@pytest.mark.parametrize("n", [3, 2000])
@pytest.mark.parametrize("halflife", [None, 3.0])
def test_a_state_taken_over_goes_on_as_the_original(n: int, halflife: float | None) -> None:
    first, then = draw(1, [n, n], (2,))
    stats, other = fed([first], (2,), halflife=halflife), RunningStats((2,), halflife=halflife)
    state = stats.state_dict()
    assert {name: (value.shape, value.dtype) for name, value in state.items()} == {
        "mean": ((2,), np.float64),
        "var": ((2,), np.float64),
        "count": ((), np.float64),
    }
    other.load_state_dict(state)
    for each in (stats, other):
        each.update(then)
    assert same_state(other.state_dict(), stats.state_dict())
    assert not same_state(other.state_dict(), state)


def test_a_state_shares_no_memory_with_the_statistics() -> None:
    stats = fed([[[1.0, 2.0], [3.0, 6.0]]], (2,))
    state, other = stats.state_dict(), RunningStats((2,))
    other.load_state_dict(state)
    for value in state.values():
        value[...] = 77.0
    for each in (stats, other):
        # means 2 and 4, variances 1 and 4
        assert (each.mean.tolist(), each.var.tolist(), each.count) == ([2.0, 4.0], [1.0, 4.0], 2.0)
    assert not np.shares_memory(stats.mean, other.mean)


def test_a_state_of_plain_numbers_and_lists_is_taken_over() -> None:
    stats = RunningStats((2,))
    stats.load_state_dict({"count": 3, "var": [0, 1], "mean": np.array([1, 2], np.float32)})
    assert (stats.mean.tolist(), stats.var.tolist(), stats.count) == ([1.0, 2.0], [0.0, 1.0], 3.0)
    assert stats.mean.dtype == stats.var.dtype == np.float64 and type(stats.count) is float


ELSEWHERE = "it was saved around another environment."


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"more": 1.0}, "The state has ['count', 'mean', 'more', 'var']; expected the keys ['count', 'mean', 'var']."),
        ({"var": None}, "The state has ['count', 'mean']; expected the keys ['count', 'mean', 'var']."),
        (
            {"mean": np.zeros(3)},
            f"'mean' of the state has shape (3,) and dtype float64; expected (2,) and float64: {ELSEWHERE}",
        ),
        ({"var": 1.0}, f"'var' of the state has shape () and dtype float64; expected (2,) and float64: {ELSEWHERE}"),
        (
            {"count": np.ones(1)},
            f"'count' of the state has shape (1,) and dtype float64; expected () and float64: {ELSEWHERE}",
        ),
        (
            {"mean": np.zeros(2, complex)},
            f"'mean' of the state has shape (2,) and dtype complex128; expected (2,) and float64: {ELSEWHERE}",
        ),
        (
            {"mean": np.array(["1", "2"])},
            f"'mean' of the state has shape (2,) and dtype <U1; expected (2,) and float64: {ELSEWHERE}",
        ),
        ({"mean": np.array([0.0, math.nan])}, "'mean' of the state holds a number that is not finite."),
        ({"var": np.array([1.0, math.inf])}, "'var' of the state holds a number that is not finite."),
        ({"count": math.nan}, "'count' of the state holds a number that is not finite."),
        ({"var": np.array([1.0, -1e-9])}, "The state holds a variance or a count below zero."),
        ({"count": -1.0}, "The state holds a variance or a count below zero."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_taken_over(changes: dict[str, Any], text: str) -> None:
    changed = {"mean": np.array([5.0, 5.0]), "var": np.array([5.0, 5.0]), "count": 5.0, **changes}
    state = {name: value for name, value in changed.items() if value is not None}
    stats = fed([[[1.0, 2.0], [3.0, 6.0]]], (2,))
    before = stats.state_dict()
    with pytest.raises(ValueError) as raised:
        stats.load_state_dict(state)
    assert str(raised.value) == text
    assert same_state(stats.state_dict(), before)

    tree = StatsTree({"['a']": fed([[1.0]]), "['b']": stats})
    nested = tree.state_dict()
    for name in [name for name in nested if name.startswith("['b']")]:
        del nested[name]
    nested |= {"['a'].mean": np.array(9.0)} | {f"['b'].{name}": value for name, value in state.items()}
    before = tree.state_dict()
    with pytest.raises(ValueError, match="state"):
        tree.load_state_dict(nested)
    assert same_state(tree.state_dict(), before), "nor in the part before the one that does not fit"


def test_a_state_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ValueError) as raised:
        RunningStats().load_state_dict([1.0, 2.0])  # type: ignore[arg-type]  # the mistake under test
    assert str(raised.value) == "The state has list; expected the keys ['count', 'mean', 'var']."


def test_a_state_keeps_the_dtypes_and_copies_the_arrays() -> None:
    like = {"flags": np.zeros(2, bool), "steps": np.zeros((), np.int64)}
    state = {"steps": np.array(4, np.int32), "flags": np.array([True, False])}
    loaded = check_state(state, like)
    assert {name: value.dtype for name, value in loaded.items()} == {"flags": np.bool_, "steps": np.int64}
    assert loaded["flags"].tolist() == [True, False] and loaded["steps"] == 4
    assert not np.shares_memory(loaded["flags"], state["flags"])
    with pytest.raises(ValueError, match=r"^'steps' of the state has shape \(\) and dtype float64; expected \(\) and"):
        check_state({**state, "steps": 4.5}, like)


def test_where_numbers_need_not_be_finite_a_state_may_hold_any() -> None:
    state = {"frames": np.array([math.nan, math.inf])}
    loaded = check_state(state, {"frames": np.zeros(2)}, finite=False)
    np.testing.assert_array_equal(loaded["frames"], [math.nan, math.inf])
    with pytest.raises(ValueError, match=r"^'frames' of the state holds a number that is not finite\.$"):
        check_state(state, {"frames": np.zeros(2)})
    with pytest.raises(ValueError, match=r"^'frames' of the state has shape \(2,\)"):
        check_state(state, {"frames": np.zeros(3)}, finite=False)


def test_the_text_says_shape_weight_and_halflife() -> None:
    assert repr(fed([[[1.0, 2.0]] * 3], (2,))) == "RunningStats(shape=(2,), count=3)"
    assert repr(fed([[0.0], [0.0]], halflife=1.0)) == "RunningStats(shape=(), count=1.5, halflife=1.0)"


# Trees


def tree_of_three() -> tuple[StatsTree, list[RunningStats]]:
    leaves = [RunningStats((k + 1,)) for k in range(3)]
    places = ["['camera']", "['joints'][0]", "['joints'][1]['x']"]
    return StatsTree(dict(zip(places, leaves, strict=True))), leaves


def test_a_tree_is_read_by_the_keys_of_the_space() -> None:
    tree, (camera, first, second) = tree_of_three()
    assert tree["camera"] is camera
    joints = tree["joints"]
    assert isinstance(joints, StatsTree)
    assert joints[0] is first
    assert isinstance(joints[1], StatsTree) and joints[1]["x"] is second
    assert list(tree) == [camera, first, second] and list(joints) == [first, second]


def test_keys_that_begin_alike_are_not_mistaken_for_each_other() -> None:
    leaves = {place: RunningStats() for place in ("['a']", "['ab']", "[1]", "[10]", "['1']", "[\"a']['b\"]")}
    tree = StatsTree(leaves)
    for key, place in (("a", "['a']"), ("ab", "['ab']"), (1, "[1]"), (10, "[10]"), ("1", "['1']")):
        assert tree[key] is leaves[place]
    assert tree["a']['b"] is leaves["[\"a']['b\"]"]


def test_a_key_that_is_not_there_is_answered_with_those_that_are() -> None:
    tree, _ = tree_of_three()
    for key in ("camer", 0, "x"):
        with pytest.raises(KeyError) as raised:
            tree[key]
        places = "[\"['camera']\", \"['joints'][0]\", \"['joints'][1]['x']\"]"
        assert raised.value.args == (f"{key!r}: there are statistics of {places}.",)


def test_the_state_of_a_tree_has_a_name_per_part_and_is_taken_over() -> None:
    tree, leaves = tree_of_three()
    for k, leaf in enumerate(leaves):
        leaf.update(np.full((2, k + 1), 10.0 * k))
    state = tree.state_dict()
    assert list(state) == [
        f"{place}.{name}"
        for place in ("['camera']", "['joints'][0]", "['joints'][1]['x']")
        for name in ("mean", "var", "count")
    ]
    assert state["['joints'][1]['x'].mean"].tolist() == [20.0, 20.0, 20.0]
    other, theirs = tree_of_three()
    other.load_state_dict(state)
    for value in state.values():
        value[...] = -7.0
    assert [leaf.mean.tolist() for leaf in theirs] == [[0.0], [10.0, 10.0], [20.0, 20.0, 20.0]]
    assert [leaf.count for leaf in theirs] == [2.0, 2.0, 2.0]


def test_a_part_may_have_a_mean_below_zero_and_be_called_mean() -> None:
    leaf = fed([[-4.0, -6.0]])
    tree, other = StatsTree({"['mean']": leaf}), RunningStats()
    StatsTree({"['mean']": other}).load_state_dict(tree.state_dict())
    assert (float(other.mean), float(other.var)) == (-5.0, 1.0)


def test_the_text_of_a_tree_says_its_parts() -> None:
    tree, _ = tree_of_three()
    assert repr(tree["joints"]) == (
        "StatsTree({'[0]': RunningStats(shape=(2,), count=0), \"[1]['x']\": RunningStats(shape=(3,), count=0)})"
    )


# Standing still


def test_statistics_stand_still_inside_freeze_and_in_freezes_within() -> None:
    thing = Freezable()
    assert thing.updating
    with thing.freeze() as entered:
        assert entered is thing and not thing.updating
        with thing.freeze():
            assert not thing.updating
        assert not thing.updating, "leaving the inner context does not thaw"
    assert thing.updating and thing.update_running_mean


def test_an_exception_inside_freeze_passes_and_thaws() -> None:
    thing = Freezable()
    with pytest.raises(KeyError, match="inside"), thing.freeze():
        raise KeyError("inside")
    assert thing.updating


def test_setting_update_running_mean_inside_freeze_does_not_thaw() -> None:
    thing = Freezable()
    thing.update_running_mean = False
    assert not thing.updating
    with thing.freeze():
        thing.update_running_mean = True
        assert not thing.updating
    assert thing.updating
    with thing.freeze():
        thing.update_running_mean = False
    assert not thing.updating, "what was set inside holds outside"


def test_freezing_one_leaves_the_others_alone() -> None:
    one, other = Freezable(), Freezable()
    with one.freeze():
        assert not one.updating and other.updating


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numbers_that_are_large_beside_their_spread_keep_it(dtype: Any) -> None:
    # 2^24 and 2^24 + 2 in float32, 2^11 and 2^11 + 2 in float16: the mean between them is no number of that dtype
    base = 2.0**24 if dtype is np.float32 else 2.0**11
    stats = RunningStats((1,))
    stats.update(np.array([[base], [base + 2.0]]))
    for n in (1, running.LARGE):
        values = np.array([[base], [base + 2.0]] * n, dtype)
        shown = stats.standardize(values, 1e-8, None, dtype)
        assert np.allclose(shown[:2].astype(float), [[-1.0], [1.0]], atol=1e-3)


def test_equal_weights_are_not_taken_for_exponential_ones() -> None:
    equal, forgetting = fed(draw(12, [50], ()), ()), fed(draw(13, [4, 5], ()), (), halflife=3.0)
    before = forgetting.state_dict()
    # the weights 1 + q + q**2 + ... with q = 0.5 ** (1 / 3) stay below 1 / (1 - q) = 4.85
    with pytest.raises(
        ValueError, match=r"^The state holds a weight of 50\.0; with halflife=3\.0 it stays below 4\.84"
    ):
        forgetting.load_state_dict(equal.state_dict())
    assert same_state(forgetting.state_dict(), before)
    longest = fed([np.ones(1)] * 2000, (), halflife=3.0)
    forgetting.load_state_dict(longest.state_dict())
