"""Parameters of several assets: one number for all of them, or a number for each; and their correlations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.finance import checks

PerAsset = float | NDArray[np.float64]


def per_asset(check: Callable[[str, Any], float]) -> Callable[[str, Any], PerAsset]:
    """A check for one number, kept as a float, or for a sequence of numbers, kept as a read-only array `(n,)`."""

    def check_all(name: str, value: Any) -> PerAsset:
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)) or np.ndim(value) != 1:
            return check(name, value)
        return _read_only([check(f"{name}[{i}]", entry) for i, entry in enumerate(value)])

    return check_all


def correlations(name: str, value: Any) -> PerAsset | None:
    """`value` as correlations: a read-only array `(n, n)`, a float for every pair, or None for none."""
    if value is None:
        return None
    if np.ndim(value) == 0:
        return _within(name, checks.finite(name, value))
    try:
        matrix = _read_only(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number or a square matrix of numbers: {error}.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} has shape {matrix.shape}; expected (n_assets, n_assets).")
    for (i, j), entry in np.ndenumerate(matrix):
        _within(f"{name}[{i}, {j}]", checks.finite(f"{name}[{i}, {j}]", float(entry)))
    if (np.diag(matrix) != 1).any():
        raise ValueError(f"{name} has the diagonal {np.diag(matrix)}; expected ones, or it is no correlation matrix.")
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-12):
        raise ValueError(f"{name} is not symmetric; expected {name}[i, j] == {name}[j, i].")
    return matrix


def spread(name: str, value: PerAsset, n_assets: int) -> NDArray[np.float64]:
    """A number for each asset, `(n_assets,)`."""
    if np.ndim(value) and len(np.atleast_1d(value)) != n_assets:
        raise ValueError(
            f"{name} has {len(np.atleast_1d(value))} entries; expected one number for all, or {n_assets}, one for each "
            "of n_assets."
        )
    return np.full(n_assets, value)


def count_assets(**values: Any) -> int:
    """How many assets some parameters are for: arrays say their length, single numbers and None nothing.

    Raises:
        ValueError: two of them differ.
    """
    lengths = {name: len(value) for name, value in values.items() if np.ndim(value)}
    if len(set(lengths.values())) > 1:
        told = " and ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"The parameters are for different numbers of assets: {told}; expected as many in each.")
    return next(iter(lengths.values()), 1)


def factor(name: str, value: PerAsset | None, n_assets: int) -> NDArray[np.float64]:
    """The lower triangular `F` of the Cholesky decomposition `F F'` of the correlations, `(n_assets, n_assets)`.

    Raises:
        ValueError: the matrix has another size, or it is not positive semi-definite.
    """
    if value is None:
        return np.eye(n_assets)
    matrix = np.asarray(value)
    if matrix.ndim == 0:
        matrix = np.full((n_assets, n_assets), value)
        np.fill_diagonal(matrix, 1.0)
    if len(matrix) != n_assets:
        raise ValueError(f"{name} has shape {matrix.shape}; expected {(n_assets, n_assets)}, from n_assets.")
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -1e-10:
        raise ValueError(
            f"{name} has the eigenvalue {values[0]:.3g}; expected none below 0, or no assets are correlated like this."
        )
    # of a matrix that is only semi-definite too, as that of assets that move as one: M = A A', A' = Q R, M = R' R
    upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r")
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    return np.ascontiguousarray((signs[:, None] * upper).T)


def _within(name: str, value: float) -> float:
    if not -1 <= value <= 1:
        raise ValueError(f"{name} is {value!r}; expected a correlation in [-1, 1].")
    return value


def _read_only(values: Any) -> NDArray[np.float64]:
    array = np.array(values, np.float64)
    array.flags.writeable = False
    return array
