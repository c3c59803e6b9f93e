"""A floor under `Portfolio-v0`: what a trader asks for is executed where the worst shock still leaves a way out.

    asked ──> W m(h, w) (1 - k . w) >= F? ──yes──> executed as it was asked
                          │ no
                          └──> as much of it as keeps that, the rest in cash; all in cash where nothing does

W is equity over its reference and h the weights held; for m, k and why this is exact see the modules `liquidation` and
`portfolio`. It is the one-step condition on what would be left once all is sold, so that the trade asked for, the falls
and the way out are all paid for. From an episode's start, all in cash, no fall within the bounds takes equity below the
floor, whatever is asked for. A fall beyond them can; then all is sold, and below the floor nothing is bought again.

Rows are `(N, 1 + n)`: W, and the weights of the risky assets. Actions are those of `Portfolio-v0`, `(N, n + 1)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import StepResult, Wrapper
from sekai.envs.finance.portfolio import PortfolioEnv, PortfolioVecEnv
from sekai.safety.filters import FilteredEnv, Intervention, Monitor, Question, Shield
from sekai.safety.filters.env import EXECUTED, INTERVENED
from sekai.safety.tasks.finance.liquidation import worst_losses, worst_sold
from sekai.vector import VecEnv

Floats = NDArray[np.float64]

#: of the reference, left above the floor: weights still keep it as float32 rounds them, by 6e-8 of themselves
RESERVE = 2e-7


class SoldAtWorst(Monitor):
    """W m(h, w) (1 - k . w) - F: what is left above the floor at worst, once all is sold after the next step.

    Args:
        market: a `PortfolioEnv`, whose cost rates are read as they are when an action is judged.
        falls: b, the largest fall of each asset in a step, in (0, 1): one number, or one for each.
        drawdown: D, the share of the reference that may be lost, in (0, 1).

    Raises:
        ValueError: numbers out of range, short sales, costs that are not proportional, or ones for which there is no
            such guarantee.
    """

    def __init__(self, market: PortfolioEnv, falls: Any, drawdown: float) -> None:
        given = np.asarray(falls, np.float64)
        if given.shape not in ((), (market.n_assets,)) or not ((given > 0) & (given < 1)).all():
            raise ValueError(
                f"falls is {falls!r}; expected the largest fall in a step, in (0, 1): one number, or one for each of "
                f"{market.n_assets} assets."
            )
        if not 0 < drawdown < 1:
            raise ValueError(f"drawdown is {drawdown!r}; expected a share of the reference in (0, 1).")
        if market.allow_short:
            raise ValueError("The portfolio may sell short, and its largest loss has no bound: make it without.")
        self.market, self.falls, self.floor = market, np.broadcast_to(given, (market.n_assets,)), 1.0 - drawdown
        rates = self.rates
        if rates.max() > drawdown or worst_losses(rates, self.falls).max() >= 1:
            raise ValueError(
                f"The cost rates go up to {rates.max()}, and drawdown is {drawdown}; expected rates of at most that: "
                "otherwise to sell from a new peak may take more."
            )

    @property
    def rates(self) -> Floats:
        """c, of the market as it is now, `(n,)`."""
        model = self.market.cost_model
        if not model.is_proportional:
            raise ValueError(f"The costs are {model}; expected proportional ones: of others the worst is not known.")
        rates: Floats = model.rates(self.market.n_assets)
        return rates

    def margins(self, rows: Any, actions: NDArray[Any]) -> Floats:
        """Of actions, which `Portfolio-v0` divides by their sum; all 0 is cash."""
        kept: Floats = rows[:, 0] * worst_sold(rows[:, 1:], wanted_by(actions), self.rates, self.falls) - self.floor
        return kept


class TowardsCash(Intervention):
    """As much of what was asked for as is safe, the rest in cash.

    Along the way t w from cash to what was asked for, with S = (1 - t k . w) W / F, the condition is that of a concave
    function of t, S - sum c |t w - S h| - 1 >= 0, see the module `portfolio`. Newton's method from t = 1 comes down to
    its root, in no more turns than it has pieces.

    Args:
        monitor: whose condition it is.
    """

    def __init__(self, monitor: SoldAtWorst) -> None:
        self.monitor = monitor

    def propose(self, question: Question) -> Floats:
        """The furthest weights, cash last; cash where none are."""
        wanted, rates = wanted_by(question.asked), self.monitor.rates
        ratio = (self.monitor.floor + RESERVE) / question.rows[:, 0]
        steep = -(worst_losses(rates, self.monitor.falls) * wanted).sum(axis=1) / ratio
        held, share = question.rows[:, 1:], np.ones(len(wanted))
        for _ in range(wanted.shape[1] + 2):
            scale = 1 / ratio + share * steep
            away = share[:, None] * wanted - scale[:, None] * held
            short = scale - (rates * abs(away)).sum(axis=1) - 1
            slope = steep - (rates * np.sign(away) * (wanted - steep[:, None] * held)).sum(axis=1)
            falls = (short < 0) & (slope < 0)
            if not falls.any():
                break
            share = np.where(falls, share - short / np.where(falls, slope, -1.0), share).clip(0.0, 1.0)
        risky = share[:, None] * wanted
        return np.column_stack([risky, 1 - risky.sum(axis=1)])


def wanted_by(actions: NDArray[Any]) -> Floats:
    """The risky weights `(N, n)` that actions of `Portfolio-v0` stand for: over their sum; all 0 is cash."""
    given = actions.astype(np.float64)
    total = given.sum(axis=1, keepdims=True)
    weights: Floats = given[:, :-1] / np.where(total > 0, total, 1.0)
    return weights


class FloorRows:
    """The rows of a running `Portfolio-v0`; call it before every step, since it remembers the peaks.

    Args:
        env: a `PortfolioEnv` or `PortfolioVecEnv`.
        trailing: whether equity is over its running peak; else it is over equity at the start.
    """

    def __init__(self, env: PortfolioEnv | PortfolioVecEnv, *, trailing: bool = True) -> None:
        self.env, self.trailing = env, trailing
        self.reference: Floats = np.ones(1)

    def __call__(self) -> Floats:
        """The rows now, `(N, 1 + n)`."""
        equity, held = np.atleast_1d(self.env.equity), np.atleast_2d(self.env.weights)[:, :-1]
        if self.trailing:
            begins = np.atleast_1d(self.env.elapsed_steps) == 0  # an episode starts with an equity of 1
            self.reference = np.where(begins, 1.0, np.maximum(self.reference, equity))
        # short sales are refused: what is below 0 is the rounding of a weight that was sold
        return np.column_stack([equity / self.reference, np.maximum(held, 0.0)])


def portfolio_shield(market: PortfolioEnv, *, falls: Any, drawdown: float, threshold: float = 1e-9) -> Shield:
    """The filter of the module, for `FilteredEnv` or to be asked directly.

    Args:
        market: the portfolio, or `vec.template` of a vector environment.
        falls, drawdown: as for `SoldAtWorst`.
        threshold: margin that an action needs; see `Shield`.
    """
    cash = np.zeros(market.n_assets + 1)
    cash[-1] = 1.0

    def all_in_cash(rows: Any) -> Floats:
        return np.tile(cash, (len(rows), 1))

    monitor = SoldAtWorst(market, falls, drawdown)
    return Shield(monitor, all_in_cash, market.action_space, intervention=TowardsCash(monitor), threshold=threshold)


def floor_portfolios(vec: VecEnv, *, falls: Any, drawdown: float, trailing: bool = True) -> FilteredEnv:
    """A vector of `Portfolio-v0` whose equity no fall within bounds takes below a floor, whatever is asked for.

    Args:
        vec: native, `sekai.make_vec("Portfolio-v0", N, ...)`; wrappers that change actions go around the result.
        falls: the largest fall of each asset in a step, in (0, 1): one number, or one for each.
        drawdown: share of the reference that may be lost, in (0, 1).
        trailing: whether the reference is the running peak of an episode; else it is equity at its start.

    Returns:
        A `FilteredEnv`; its infos have `executed_action` and `intervened`.

    Raises:
        TypeError: another vector environment.
        ValueError: as for `SoldAtWorst`.

    Example:
        >>> vec = sekai.make_vec("Portfolio-v0", 64, model=model)
        >>> env = floor_portfolios(vec, falls=0.1, drawdown=0.2)
    """
    native = vec.unwrapped
    if not isinstance(native, PortfolioVecEnv):
        raise TypeError(
            f"The environment is {vec}; expected native Portfolio-v0. Elsewhere wrap each copy: "
            "make_vec(..., wrappers=[lambda env: FloorPortfolio(env, ...)])."
        )
    shield = portfolio_shield(native.template, falls=falls, drawdown=drawdown)
    return FilteredEnv(vec, shield, states=FloorRows(native, trailing=trailing))


class FloorPortfolio(Wrapper):
    """`floor_portfolios` for a single `Portfolio-v0`: the same arguments, and the same two keys in `info`.

    Actions are brought to the bounds of the action space, which is no intervention.

    Raises:
        TypeError: another environment.
        ValueError: as for `SoldAtWorst`.
    """

    def __init__(self, env: Any, *, falls: Any, drawdown: float, trailing: bool = True) -> None:
        super().__init__(env)
        market = self.unwrapped
        if not isinstance(market, PortfolioEnv):
            raise TypeError(f"The environment is {env}; expected Portfolio-v0.")
        self.shield = portfolio_shield(market, falls=falls, drawdown=drawdown)
        self._rows = FloorRows(market, trailing=trailing)
        self._told: dict[str, Any] = {}

    def before_step(self, action: Any) -> Any:
        """What is executed."""
        asked = np.asarray(action, np.float64)
        if asked.shape != self.shield.space.shape or not np.isfinite(asked).all():
            return action  # to be refused inside
        decision = self.shield.decide(self._rows(), asked[None], np.zeros(1, bool))
        self._told = {
            EXECUTED: decision.actions[0].astype(np.float64),
            INTERVENED: bool(decision.intervened[0]),
        }
        return decision.actions[0]

    def after_step(self, result: StepResult) -> StepResult:
        """Say what was executed."""
        return result._replace(info={**result.info, **self._told})
