"""Markets that switch between regimes."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sekai.finance.assets import correlations, factor
from sekai.finance.checks import finite_array
from sekai.finance.models.base import Array, ShockModel, State, settle
from sekai.finance.models.draws import correlated_returns, normal_levels


@dataclass(frozen=True, eq=False)
class RegimeSwitching(ShockModel):
    """A geometric Brownian motion whose parameters follow a Markov chain of `R` regimes (Hamilton 1989).

    At every bar the chain moves first, then the return is drawn with the parameters of the regime it is in now. It
    starts from its stationary distribution `pi`, and regime `k` lasts `1 / (1 - transition[k, k])` bars on average.
    With the mean `m_k` and the deviation `s_k` of the log return of a bar in each regime, returns have the mean
    `pi . m` and the variance `pi . (s^2 + m^2) - (pi . m)^2`. Hidden: `regime`, that of the latest bar.

    Attributes:
        mu: drift of the price in each regime, per year: `(R,)`, or `(R, n_assets)`.
        sigma: volatility, per square root of a year, at least 0: `(R,)`, or `(R, n_assets)`.
        transition: `(R, R)`, row `k` the probabilities to go from regime `k` to each in one bar, however long it is;
            rows add up to 1.
        corr: correlations in all regimes: `(n_assets, n_assets)`, one number for every pair, or None: none; or a list
            of `R` of these.
        stationary: `pi`, float64 `(R,)`.

    Raises:
        TypeError, ValueError: anything else; the message names the argument.
    """

    mu: ArrayLike
    sigma: ArrayLike
    _: KW_ONLY
    transition: ArrayLike
    corr: Any = None
    stationary: Array = field(init=False)
    _drift: Array = field(init=False, repr=False)  # (n, R)
    _loading: Array = field(init=False, repr=False)  # (n, n, R)
    _first: Array = field(init=False, repr=False)
    _levels: Array = field(init=False, repr=False)

    start_shocks = 1

    def __post_init__(self) -> None:
        transition = _transition(self.transition)
        regimes = len(transition)
        mu, sigma = _by_regime("mu", self.mu, regimes), _by_regime("sigma", self.sigma, regimes)
        if (sigma < 0).any():
            raise ValueError(f"sigma has {sigma.min()}; expected volatilities of at least 0.")
        if mu.shape[1] != sigma.shape[1] and 1 not in (mu.shape[1], sigma.shape[1]):
            raise ValueError(f"mu has {mu.shape[1]} assets and sigma {sigma.shape[1]}; expected as many.")
        mu, sigma = (np.array(values) for values in np.broadcast_arrays(mu, sigma))
        factors = np.array(_factors(self.corr, *mu.shape))
        stationary = _stationary(transition)
        settle(
            self,
            mu=mu,
            sigma=sigma,
            transition=transition,
            stationary=stationary,
            _drift=np.ascontiguousarray((mu - 0.5 * sigma**2).T),
            _loading=np.ascontiguousarray(np.moveaxis(sigma[:, :, None] * factors, 0, -1)),
            _first=normal_levels(stationary),
            _levels=np.array([normal_levels(row) for row in transition]),
        )
        for array in (mu, sigma, transition, stationary):
            array.flags.writeable = False

    @property
    def n_assets(self) -> int:
        """How many prices move together."""
        return len(self._drift)

    @property
    def bar_shocks(self) -> int:
        """One for the chain, one for each asset."""
        return 1 + len(self._drift)

    def new_state(self, num_slots: int) -> State:
        """`regime`, int64 `(N,)`."""
        return {"regime": np.zeros(num_slots, np.int64)}

    def _start(self, shocks: Array) -> State:
        return {"regime": (shocks >= self._first).sum(axis=1)}

    def _move(self, hidden: State, shocks: Array, dt: float) -> Array:
        regime, path = hidden["regime"], np.empty(shocks.shape[:2], np.int64)
        for bar in range(shocks.shape[1]):
            regime = (shocks[:, bar, :1] >= self._levels[regime]).sum(axis=1)
            path[:, bar] = regime
        hidden["regime"] = regime
        drift, loading = self._drift * dt, self._loading * math.sqrt(dt)
        return correlated_returns(drift[:, path], loading[:, :, path], shocks[:, :, 1:])


def _by_regime(name: str, value: Any, regimes: int) -> Array:
    array = finite_array(name, value)
    if array.ndim not in (1, 2) or len(array) != regimes or 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; expected ({regimes},) or ({regimes}, n_assets), a row for each regime of "
            "transition."
        )
    return array.reshape(regimes, -1)


def _factors(corr: Any, regimes: int, n_assets: int) -> list[Array]:
    # a list of numbers, matrices or None; a matrix written as a list has rows in it
    listed = np.ndim(corr[0]) != 1 if isinstance(corr, (list, tuple)) and corr else np.ndim(corr) == 3
    if not listed:
        return [factor("corr", correlations("corr", corr), n_assets)] * regimes
    if len(corr) != regimes:
        raise ValueError(f"corr has {len(corr)} entries; expected {regimes}, one for each regime of transition.")
    return [factor(f"corr[{k}]", correlations(f"corr[{k}]", one), n_assets) for k, one in enumerate(corr)]


def _transition(value: Any) -> Array:
    matrix = finite_array("transition", value, 2)
    if matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"transition has shape {matrix.shape}; expected (R, R) for R regimes.")
    if (matrix < 0).any():
        raise ValueError(f"transition has {matrix.min()}; expected probabilities, at least 0.")
    for regime, total in enumerate(matrix.sum(axis=1).tolist()):
        if abs(total - 1.0) > 1e-9:
            raise ValueError(f"transition[{regime}] adds up to {total}; expected 1: row k says where regime k goes.")
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _stationary(transition: Array) -> Array:
    """The `pi` with `pi P = pi` and sum 1."""
    regimes = len(transition)
    equations = np.vstack([transition.T - np.eye(regimes), np.ones(regimes)])
    solution, _, rank, _ = np.linalg.lstsq(equations, np.append(np.zeros(regimes), 1.0), rcond=1e-13)
    if rank < regimes:
        raise ValueError(
            "transition has more than one stationary distribution: its regimes fall into groups that never reach each "
            "other; expected one group, or the start would say everything."
        )
    solution = np.where(solution < 1e-14, 0.0, solution)  # a regime that is left for good, but for rounding
    return np.asarray(solution / solution.sum())
