"""Mean and variance of rows that come one batch at a time.

Shapes: a batch is `(n, *shape)`, statistics are `(*shape)`, float64; the variance is the population's (`ddof=0`).

Two batches of total weight `w_a` and `w_b` with means `m_a`, `m_b` and variances `v_a`, `v_b` have together, with
`w = w_a + w_b` and `d = m_b - m_a` (Chan, Golub and LeVeque 1983, eq. 2.1):

    mean      = m_a + d * w_b / w
    variance  = (w_a * v_a + w_b * v_b + d**2 * w_a * w_b / w) / w

Equal weights give every row the weight 1. Exponential weights give every batch the weight 1, whatever its size, and
multiply all earlier weight by `0.5 ** (1 / halflife)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.core.kernels import kernel
from sekai.stats.state import check_state

#: entries from which machine code pays: below, loading numba (half a second) would cost more than it saves
LARGE = 1024
COMPILED = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
#: length of a run of rows in machine code
RUN = 128


class Taken(NamedTuple):
    """What statistics become with a batch taken in.

    Attributes:
        mean: float64 `shape`.
        var: float64 `shape`.
        weight: in total.
        finite: whether every number of the batch was finite, and no square too large.
    """

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    weight: float
    finite: bool


class RunningStats:
    """Running mean and variance, of equal or of exponential weights; see the module.

    Args:
        shape: of one row.
        halflife: number of updates after which a batch has half its weight; None weighs every row alike.

    Attributes:
        mean: float64 `shape`; 0 before the first row.
        var: float64 `shape`; 1 before the first row, so that nothing is scaled by statistics of nothing.
        count: total weight.

    Raises:
        ValueError: a half-life that is no positive number.

    Example:
        >>> stats = RunningStats()
        >>> stats.update([1.0, 2.0])
        >>> stats.update([6.0])
        >>> float(stats.mean), float(stats.var)
        (3.0, 4.666666666666667)
    """

    def __init__(self, shape: tuple[int, ...] = (), *, halflife: float | None = None) -> None:
        if halflife is not None and not 0.0 < halflife < math.inf:
            raise ValueError(f"halflife is {halflife!r}; expected a positive number of updates.")
        self.halflife = halflife
        self._decay = 1.0 if halflife is None else 0.5 ** (1.0 / halflife)
        self.mean: NDArray[np.float64] = np.zeros(shape)  # replaced, never written to
        self.var: NDArray[np.float64] = np.ones(shape)
        self.count = 0.0

    def update(self, rows: ArrayLike) -> None:
        """Take in a batch, `(n, *shape)`; one of no rows changes nothing, the exponential weights included.

        Raises:
            ValueError: another shape, or a number that is not finite; nothing is taken in.
        """
        array = np.asarray(rows)
        if array.shape[1:] != self.mean.shape or array.ndim == 0:
            raise ValueError(f"rows have shape {array.shape}; expected (n, *{self.mean.shape}).")
        taken = self.with_rows(array)
        if not taken.finite:
            raise ValueError("rows hold NaN, an infinity, or numbers whose square is one: they have no mean.")
        self.take(taken)

    def with_rows(self, rows: NDArray[Any]) -> Taken:
        """What the statistics become with these rows, `(n, *shape)`; they change only by `take`."""
        n, shape = len(rows), self.mean.shape
        if n == 0:
            return Taken(self.mean, self.var, self.count, True)
        count, share = self._weights_with(n)
        # Differences from a number near the mean keep the digits that a sum of squares would lose.
        flat = np.ascontiguousarray(rows).reshape(n, -1)
        shift = self.mean.reshape(-1) if self.count else flat[0].astype(np.float64)
        if n == 1:  # the row is the mean, and a single environment calls this at every step
            with np.errstate(over="ignore", invalid="ignore"):  # `finite` says so
                row = flat[0].astype(np.float64).reshape(shape)
                mean, var = merged(self.mean, self.var, row, 0.0, share)
                return Taken(mean, var, count, math.isfinite(var.sum()))
        if rows.size >= LARGE and rows.dtype in COMPILED:
            new = np.empty((2, *shape))
            columns = new.reshape(2, -1)
            finite = take_in.compiled(flat, shift, self.mean.reshape(-1), self.var.reshape(-1), share, columns)
            return Taken(new[0, ...], new[1, ...], count, finite)
        with np.errstate(over="ignore", invalid="ignore"):  # `finite` says so
            away = flat - shift
            mean, square = np.add.reduce(away, 0) / n, np.einsum("ij,ij->j", away, away) / n
            var = np.maximum(square - mean * mean, 0.0)  # rounding may leave -1e-17 of equal rows
            mean, var = merged(self.mean, self.var, (shift + mean).reshape(shape), var.reshape(shape), share)
            return Taken(mean, var, count, math.isfinite(var.sum()))

    def _weights_with(self, n: int) -> tuple[float, float]:
        """The total weight with a batch of `n` rows taken in, and that batch's share of it."""
        weight = float(n) if self.halflife is None else 1.0
        count = self.count * self._decay + weight
        return count, weight / count

    def take(self, taken: Taken) -> None:
        """Become what `with_rows` gave."""
        self.mean, self.var, self.count = taken.mean, taken.var, taken.weight

    def take_and_standardize(
        self, rows: NDArray[Any], epsilon: float, clip: float | None, dtype: DTypeLike
    ) -> NDArray[Any] | None:
        """`update` with these rows, then `standardize` them, in one pass of machine code where it can be.

        Args:
            rows: `(n, *shape)`.

        Returns:
            The rows standardised by the new statistics; None, and nothing is taken in, where `update` would refuse.
        """
        if not (rows.size >= LARGE and rows.dtype in COMPILED and np.dtype(dtype) in COMPILED and self.count):
            taken = self.with_rows(rows)
            if not taken.finite:
                return None
            self.take(taken)
            return self.standardize(rows, epsilon, clip, dtype)
        n, width = len(rows), self.mean.size
        count, share = self._weights_with(n)
        new, out = np.empty((2, width)), np.empty(rows.shape, dtype)
        numbers, bound = np.ascontiguousarray(rows).reshape(n, width), math.inf if clip is None else clip
        mean, var = self.mean.reshape(-1), self.var.reshape(-1)
        if not take_in_and_standardize.compiled(numbers, mean, var, share, new, epsilon, bound, out.reshape(-1)):
            return None
        shape = self.mean.shape
        self.mean, self.var, self.count = new[0].reshape(shape), new[1].reshape(shape), count
        return out

    def take_returns_and_scale(
        self,
        returns: NDArray[np.float64],
        rewards: NDArray[np.float64],
        gamma: float,
        epsilon: float,
        clip: float | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """`update` with `gamma * returns + rewards`, then divide the rewards by the root of the variance.

        Args:
            returns, rewards: `(n,)`.
            gamma: discount.
            epsilon, clip: as for `standardize`.

        Returns:
            The new returns and the scaled rewards, new arrays; None, and nothing is taken in, where `update` would
            refuse.
        """
        if len(rewards) < LARGE or not self.count:
            moved = gamma * returns + rewards
            taken = self.with_rows(moved)
            if not taken.finite:
                return None
            self.take(taken)
            return moved, self.scale(rewards, epsilon, clip)
        count, share = self._weights_with(len(rewards))
        new, moved, scaled = np.empty((2, 1)), np.empty(len(rewards)), np.empty(len(rewards))
        mean, var, bound = self.mean.reshape(1), self.var.reshape(1), math.inf if clip is None else clip
        if not discount_and_scale.compiled(
            returns, np.ascontiguousarray(rewards), gamma, mean, var, share, new, epsilon, bound, moved, scaled
        ):
            return None
        self.mean, self.var, self.count = new[0].reshape(()), new[1].reshape(()), count
        return moved, scaled

    def scale(self, values: NDArray[np.float64], epsilon: float, clip: float | None) -> NDArray[np.float64]:
        """`values / sqrt(var + epsilon)` in a new array, clipped to `[-clip, clip]`; of statistics of one number.

        Args:
            values: of any shape.
            epsilon, clip: as for `standardize`.
        """
        scaled = values / math.sqrt(self.var + epsilon)
        return scaled if clip is None else np.clip(scaled, -clip, clip, out=scaled)

    def standardize(self, values: ArrayLike, epsilon: float, clip: float | None, dtype: DTypeLike) -> NDArray[Any]:
        """`(values - mean) / sqrt(var + epsilon)` in a new array of `dtype`, clipped to `[-clip, clip]`.

        Args:
            values: `(..., *shape)`.
            epsilon: keeps a variance of zero from dividing.
            clip: bound of what is returned, None for none; NaN stays NaN.
            dtype: float dtype of the result.
        """
        values = np.asarray(values)
        if values.size >= LARGE and values.dtype in COMPILED and np.dtype(dtype) in COMPILED:
            out = np.empty(values.shape, dtype)
            numbers, written = np.ascontiguousarray(values).reshape(-1), out.reshape(-1)
            bound = math.inf if clip is None else clip
            standardize_into.compiled(numbers, self.mean.reshape(-1), self.var.reshape(-1), epsilon, bound, written)
            return out
        away = (values - self.mean) * (1.0 / np.sqrt(self.var + epsilon))
        if clip is not None:
            away = np.minimum(np.maximum(away, -clip), clip)
        return np.asarray(away, dtype)

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Copies of `mean`, `var` and `count`."""
        return {"mean": np.array(self.mean), "var": np.array(self.var), "count": np.array(self.count)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: other keys, another shape, a number that is not finite, a variance or count below zero, or a
                weight that these statistics cannot reach; nothing is taken over.
        """
        loaded = check_state(state, self.state_dict())
        if (loaded["var"] < 0).any() or loaded["count"] < 0:
            raise ValueError("The state holds a variance or a count below zero.")
        if self.halflife is not None and loaded["count"] > (1.0 + 1e-9) / (1.0 - self._decay):
            raise ValueError(
                f"The state holds a weight of {loaded['count']}; with halflife={self.halflife} it stays below "
                f"{1.0 / (1.0 - self._decay)}: it was saved by statistics of another half-life, or of equal weights."
            )
        self.mean, self.var, self.count = loaded["mean"], loaded["var"], float(loaded["count"])

    def __repr__(self) -> str:
        kind = "" if self.halflife is None else f", halflife={self.halflife}"
        return f"RunningStats(shape={self.mean.shape}, count={self.count:.6g}{kind})"


@kernel
def merged(mean: Any, var: Any, new_mean: Any, new_var: Any, share: float) -> Any:
    """Mean and variance of two batches together, of which the new one has this share of the weight; see the module."""
    away = new_mean - mean
    rest = 1.0 - share
    return mean + away * share, var * rest + new_var * share + away * away * (share * rest)


@kernel
def take_in(rows: Any, shift: Any, mean: Any, var: Any, share: float, new: Any) -> bool:
    """`RunningStats.with_rows` of `rows (n, D)`: write mean and variance into `new (2, D)`, return whether finite.

    `shift (D,)` is a number near the mean of each column.
    """
    n, width = rows.shape
    new[:] = 0.0
    sum_up(rows.reshape(n * width), shift, new)
    total = 0.0
    for j in range(width):
        away = new[0, j] / n
        square = new[1, j] / n - away * away
        if square < 0.0:  # NaN stays NaN
            square = 0.0
        new[0, j], new[1, j] = merged(mean[j], var[j], shift[j] + away, square, share)
        total += new[1, j]
    return bool(np.isfinite(total))


@kernel
def take_in_and_standardize(
    rows: Any, mean: Any, var: Any, share: float, new: Any, epsilon: float, bound: float, out: Any
) -> bool:
    """`take_in`, then `standardize_into` of the same rows by the new statistics, unless they are not finite."""
    if not take_in(rows, mean, mean, var, share, new):
        return False
    standardize_into(rows.reshape(rows.shape[0] * rows.shape[1]), new[0], new[1], epsilon, bound, out)
    return True


@kernel
def discount_and_scale(
    returns: Any,
    rewards: Any,
    gamma: float,
    mean: Any,
    var: Any,
    share: float,
    new: Any,
    epsilon: float,
    bound: float,
    moved: Any,
    scaled: Any,
) -> bool:
    """Write `gamma * returns + rewards` into `moved`, `take_in` it, and write the scaled rewards, unless not finite.

    `new (2, 1)` receives mean and variance; the other arrays are `(n,)`.
    """
    n = len(rewards)
    for i in range(n):
        moved[i] = gamma * returns[i] + rewards[i]
    if not take_in(moved.reshape(n, 1), mean, mean, var, share, new):
        return False
    spread = np.sqrt(new[1, 0] + epsilon)
    for i in range(n):
        scaled[i] = min(max(rewards[i] / spread, -bound), bound)
    return True


@kernel
def sum_up(numbers: Any, shift: Any, sums: Any) -> None:
    """Add differences from `shift (D,)` of `n` rows in a row, `(n * D,)`, to `sums[0]`, their squares to `sums[1]`.

    Four runs of rows at a time: a run is long enough for the vector units, and four of them are added up before the
    sums are read and written. At 1,024 rows of 31 float32 that takes 5 microseconds, two plain loops take 11.
    """
    width = len(shift)
    near = tiled(shift, max(1, RUN // width), shift.dtype)
    length = len(near)
    first, second = np.zeros(length), np.zeros(length)
    even = len(numbers) // (4 * length) * 4 * length
    for at in range(0, even, 4 * length):
        a, b = numbers[at : at + length], numbers[at + length : at + 2 * length]
        c, d = numbers[at + 2 * length : at + 3 * length], numbers[at + 3 * length : at + 4 * length]
        for j in range(length):
            p, q, r, s = a[j] - near[j], b[j] - near[j], c[j] - near[j], d[j] - near[j]
            first[j] += (p + q) + (r + s)
            second[j] += (p * p + q * q) + (r * r + s * s)
    for at in range(even, len(numbers), length):
        rest = numbers[at : at + length]
        for j in range(len(rest)):
            away = rest[j] - near[j]
            first[j] += away
            second[j] += away * away
    for j in range(length):
        sums[0, j % width] += first[j]
        sums[1, j % width] += second[j]


@kernel
def standardize_into(numbers: Any, mean: Any, var: Any, epsilon: float, bound: float, out: Any) -> None:
    """Write `(numbers - mean) / sqrt(var + epsilon)`, held to `[-bound, bound]`, into `out`, in the dtype of `numbers`.

    `numbers` and `out` are `n` rows in a row, `(n * D,)`; `mean` and `var (D,)`. The mean is taken away in two parts:
    rounded to the dtype of `numbers` alone, it would shift numbers that are large beside their spread.
    """
    times = max(1, RUN // len(mean))
    middle, scale = tiled(mean, times, numbers.dtype), tiled(1.0 / np.sqrt(var + epsilon), times, numbers.dtype)
    rest = tiled(mean, times, np.float64)
    fine = np.empty(len(middle), numbers.dtype)
    for j in range(len(middle)):
        fine[j] = rest[j] - middle[j]
    low, high = numbers.dtype.type(-bound), numbers.dtype.type(bound)
    for at in range(0, len(numbers), len(middle)):
        run, to = numbers[at : at + len(middle)], out[at : at + len(middle)]
        for j in range(len(run)):
            # in this order NaN stays NaN
            to[j] = min(max((run[j] - middle[j] - fine[j]) * scale[j], low), high)


@kernel
def tiled(values: Any, times: int, dtype: Any) -> Any:
    """`values (D,)`, so many times in a row."""
    width = len(values)
    out = np.empty(times * width, dtype)
    for j in range(times * width):
        out[j] = values[j % width]
    return out
