"""Portfolio-v0, the single environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import ResetResult, StepResult
from sekai.envs.finance import checks, pictures
from sekai.envs.finance.market import check_model, check_unused
from sekai.envs.finance.parameters import Fixed, Parameter, ParameterEnv
from sekai.envs.finance.portfolio import kernel as pk
from sekai.envs.finance.portfolio.slots import PortfolioSlots, parameter_blocks
from sekai.envs.finance.rendering import RENDER_FPS, RENDER_MODES
from sekai.envs.finance.windows import count_windows, history, sampled_rows, share_history, start_row
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance.assets import correlations, per_asset
from sekai.finance.costs import ProportionalCost, as_cost_model, choose_cost_model
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.finance.rewards import Reward, as_reward
from sekai.finance.samplers import RandomStart, as_sampler
from sekai.seeding import Seed, check_seed
from sekai.spaces import Box, Dict
from sekai.spaces.checks import has_masked_entries, whole_number

Options = dict[str, Any] | None

MU = 0.06  # of the built-in market


class PortfolioEnv(ParameterEnv):
    """Choose the weights of several assets and cash, bar by bar.

    At row `t` the agent sees the prices up to `t`, the close of the bar included, and chooses target weights. The
    trades fill at those same closes (optimistic, and the usual convention of backtests), so that the weights after
    the cost are exactly the targets; then the prices move to row `t + 1`, and the weights drift. The fraction `m` of
    equity that is left after the cost solves `m = 1 - sum c_i |m w_i - h_i|` over the risky assets, where `h` are
    the weights before the trade, `w` the targets and `c` the cost rates. Accounting: `portfolio.kernel`.

    - Observation: a dict of `returns`, float32 `(lookback, n_assets)`, log returns, oldest first, the newest the ones
      into row `t`; and `weights`, float32 `(n_assets + 1,)`, drifted since the last trade, cash last.
    - Action: float32 `(n_assets + 1,)` in `[0, 1]`, target weights with cash last, each divided by their sum: weights
      that sum to 1 are taken as they are. All of them 0 is all cash. With `allow_short`: `(n_assets,)` in `[-1, 1]`,
      divided by the sum of their sizes where that is above 1; cash is the rest, proceeds of short sales included.
    - Reward: log growth of equity over the step, cost included, or what `reward` says. Log growths add up to
      `ln(equity at the end / equity at the start)`.
    - End: the last row of the window truncates; nothing is liquidated. Equity at or below
      `max(ruin_fraction, 1e-8)` of the start terminates; equity below 1e-8 counts as 1e-8 in that last reward and
      in the last weights. Both flags are true when ruin falls on the last row.
    - Info: `timestamp` (row or date of the state just observed, that is of the next decision), `dt`, `equity` (1 at
      the start), `portfolio_value` (`capital` times as much), `weights` (float64 `(n_assets + 1,)`), and of this
      step: `turnover` (sum of the absolute changes of the risky weights) and `cost`, fractions of the equity before
      the trade, and `asset_returns` (simple, float64 `(n_assets,)`). After a reset the last three are 0.
    - `reset(options={"start": row})`: row of the first decision. A negative row counts from the end; a date is
      accepted where the data have dates. A window in which a price is missing is refused.

    Without a history the prices are correlated geometric Brownian motions, or what `model` says, drawn from the
    environment's generator. Rows count from 0; the first decision is at row `lookback`.

    Args:
        prices: `(T, n_assets)`, the history; or None.
        data: the history as a `MarketData`; or None.
        n_assets: how many risky assets there are; by default as many as history or model have, 5 without one.
        episode_length: steps of an episode, at least 1.
        lookback: rows of returns in the observation, at least 1.
        transaction_cost: shorthand for a proportional `cost_model`; by default 1e-3 of the value traded.
        cost_model: a rate below 1, one for each asset, or a `CostModel` of `sekai.finance`, such as
            `ProportionalCost(5e-4) + FixedCost(1e-6)`. A fee is owed by each asset that is more than 2.5e-7 of the
            equity away from its target, before the trade or once the costs are paid.
        allow_short: whether assets can be sold short, see Action.
        mu: drift of the simulated prices, per year; by default 0.06. One number, or one for each asset.
        sigma: their volatility, per square root of a year; by default from 0.15 to 0.35 in equal steps.
        corr: their correlations: a matrix `(n_assets, n_assets)`, or one number for every pair; None: none.
        dt: length of a bar in years, by default 1/252.
        model: a `PriceModel` to simulate instead; `mu`, `sigma`, `corr` and `shock_clip` are then left out.
        reward: a `sekai.finance.Reward`, or "log" (the default), "simple", "pnl", "mean_variance",
            "differential_sharpe" or "drawdown". What it remembers of an episode belongs to it: it cannot be set later.
        sampler: which windows of a history to run through: "random", "sequential" or an `EpisodeSampler`.
        capital: value of the portfolio at the start.
        shock_clip: bound of the simulated one-step shock of an asset, in its standard deviations; None: none.
        ruin_fraction: in `[0, 1)`, see End.
        render_mode: None, or "rgb_array": `render` returns a picture of the episode so far, uint8 `(H, W, 3)`.

    Attributes:
        cost_model, mu, sigma, corr, dt, capital, shock_clip, ruin_fraction, sampler: as given; they may be set, and
            act from the next step (`sampler`: reset) on.
        n_assets, lookback, episode_length, allow_short, prices, data, model, reward, transaction_cost: as given;
            read-only.
    """

    fresh_infos = True
    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}  # noqa: RUF012  # gymnasium declares it so
    _picture = pictures.PORTFOLIO
    _kept = ("_live", "_first_row")

    mu = Parameter(per_asset(checks.finite), "Drift of the simulated prices, per year.")
    sigma = Parameter(per_asset(checks.not_negative), "Volatility of the simulated prices, per square root of a year.")
    corr = Parameter(correlations, "Correlations of the simulated prices.")
    dt = Parameter(checks.positive, "Length of a bar, in years.")
    capital = Parameter(checks.positive, "Value of the portfolio at the start.")
    shock_clip = Parameter(checks.or_none(checks.positive), "Bound of simulated shocks, in standard deviations.")
    cost_model = Parameter(lambda name, value: as_cost_model(value, name), "What a trade costs.")
    ruin_fraction = Parameter(checks.fraction, "Equity at or below this fraction of the start terminates.")
    sampler = Parameter(lambda _, value: as_sampler(value), "Which windows to run through; acts at the next reset.")

    def __init__(
        self,
        prices: Any = None,
        *,
        data: MarketData | None = None,
        n_assets: int | None = None,
        episode_length: int = 252,
        lookback: int = 30,
        transaction_cost: Any = None,
        cost_model: Any = None,
        allow_short: bool = False,
        mu: Any = None,
        sigma: Any = None,
        corr: Any = None,
        dt: float | None = None,
        model: PriceModel | None = None,
        reward: Any = None,
        sampler: Any = "random",
        capital: float = 1e6,
        shock_clip: float | None = None,
        ruin_fraction: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        self._data = history(prices, data)
        self._model = check_model(model, self._data)
        self._n_assets = _count_assets(n_assets, self._data, self._model)
        self._episode_length = whole_number("episode_length", episode_length, minimum=1)
        self._lookback = whole_number("lookback", lookback, minimum=1)
        self._reward = as_reward(reward)
        if not isinstance(allow_short, (bool, np.bool_)):
            raise TypeError(f"allow_short is {allow_short!r}; expected True or False.")
        self._allow_short = bool(allow_short)
        self._record_for(render_mode)
        self._num_windows = 0
        if self._data is not None:
            self._num_windows = count_windows(self._data, self._lookback, self._episode_length)
        super().__init__(
            mu=MU if mu is None else mu,
            sigma=_default_sigma(self._n_assets) if sigma is None else sigma,
            corr=corr,
            dt=1 / 252 if dt is None else dt,
            capital=capital,
            shock_clip=shock_clip,
            cost_model=choose_cost_model(transaction_cost, cost_model),
            ruin_fraction=ruin_fraction,
            sampler=sampler,
        )
        n = self._n_assets
        low, size = (-1.0, n) if self._allow_short else (0.0, n + 1)
        self.action_space = Box(low, 1.0, (size,), np.float32)
        bounds = (-np.inf, np.inf) if self._allow_short else (0.0, 1.0)
        self.observation_space = Dict(
            {"returns": Box(-np.inf, np.inf, (self._lookback, n), np.float32), "weights": Box(*bounds, (n + 1,))}
        )
        self._slots: PortfolioSlots = PortfolioSlots(
            1, self._data, self._model, n, self._lookback, self._episode_length, self._reward
        )
        self._first_row = self._lookback
        self._live = False
        self._frozen = np.zeros(1, bool)
        self._action = np.zeros((1, size), np.float32)
        self._low = low
        self._action_shape = self.action_space.shape  # in a step, a property costs
        self._out = np.zeros((pk.OUT_ROWS, 1))
        self._flags = np.zeros((2, 1), bool)

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        if self._data is None and not isinstance(parameters["sampler"], RandomStart):
            raise ValueError(
                f"sampler is {parameters['sampler']!r}, and a simulated market has no windows to choose from: give "
                "prices or data."
            )
        check_unused(
            self._model,
            mu=not np.array_equal(parameters["mu"], MU),
            sigma=not np.array_equal(parameters["sigma"], _default_sigma(self._n_assets)),
            corr=parameters["corr"] is not None,
            shock_clip=parameters["shock_clip"] is not None,
        )
        given = self._model is not None
        self._blocks = parameter_blocks(parameters, self._n_assets, self._allow_short, given=given)

    def _past_returns(self, slots: PortfolioSlots, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return slots.past_returns(indices)

    # ---- arguments that are only read -----------------------------------------------------------

    @Fixed
    def data(self) -> MarketData | None:
        """The history, None for a simulated market."""
        return self._data

    @Fixed
    def prices(self) -> NDArray[np.float64] | None:
        """The prices of the history, read-only; None for a simulated market."""
        return None if self._data is None else self._data.prices

    @Fixed
    def model(self) -> PriceModel | None:
        """The law of the simulated market, None for the built-in one and for a history."""
        return self._model

    @Fixed
    def reward(self) -> Reward:
        """What a step is worth."""
        return self._reward

    @Fixed
    def n_assets(self) -> int:
        """How many risky assets there are."""
        return self._n_assets

    @Fixed
    def lookback(self) -> int:
        """Rows of returns in the observation."""
        return self._lookback

    @Fixed
    def episode_length(self) -> int:
        """Steps of an episode."""
        return self._episode_length

    @Fixed
    def allow_short(self) -> bool:
        """Whether assets can be sold short."""
        return self._allow_short

    @property
    def transaction_cost(self) -> float | tuple[float, ...] | None:
        """Rate of the cost model, or rates, read-only; None where it has more than a rate."""
        model = self.cost_model
        if isinstance(model, ProportionalCost):
            return model.rate
        return tuple(model.rates(self._n_assets).tolist()) if model.is_proportional else None

    @transaction_cost.setter
    def transaction_cost(self, value: Any) -> None:
        raise AttributeError(f"'transaction_cost' cannot be set; set cost_model = {value!r} instead.")

    # ---- state ----------------------------------------------------------------------------------

    @property
    def equity(self) -> float:
        """Equity, 1 at the start of the episode."""
        return float(self._slots.equity[0])

    @property
    def portfolio_value(self) -> float:
        """Value of the portfolio, `capital` at the start of the episode."""
        return float(self.capital * self._slots.equity[0])

    @property
    def weights(self) -> NDArray[np.float64]:
        """Current weights, drifted since the last trade, cash last; float64 `(n_assets + 1,)`."""
        weights: NDArray[np.float64] = self._slots.weights[:, 0].copy()
        return weights

    @property
    def timestamp(self) -> Any:
        """Row, or date, of the current state."""
        row = int(self._slots.clock[pk.ROW, 0])
        return row if self._slots.timestamps is None else self._slots.timestamps[row]

    @property
    def elapsed_steps(self) -> int:
        """Steps taken in the current episode."""
        return int(self._slots.clock[pk.ROW, 0]) - self._first_row

    # ---- episodes -------------------------------------------------------------------------------

    @classmethod
    def share_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `windows.share_history`."""
        return share_history(arguments)

    def check_options(self, options: Options) -> None:
        """Raise for options that `reset` would refuse; see `windows.start_row`."""
        start_row(options, self._data, self._lookback, self._num_windows)

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode: all in cash, with equity 1. A seed also restarts the sampler. `options`: see the class."""
        row = start_row(options, self._data, self._lookback, self._num_windows)
        self._set_rng(check_seed(seed))
        if seed is not None:
            self.sampler.restart()
        slots, only = self._slots, self._slots.every
        if self._data is None:
            slots.start_simulated(only, self.rng, self._blocks, self._frozen)
        elif row is None:
            position = np.array([self.sampler.sample(self.rng, self._num_windows, self._episode_length)])
            slots.start(only, sampled_rows(position, self._data, self._lookback, self._num_windows, self.sampler))
        else:
            slots.start(only, np.array([row]))
        self._first_row = int(slots.clock[pk.ROW, 0])
        self._live = True
        seen = slots.new_observations()
        slots.observe(only, seen)
        info = {
            "timestamp": self.timestamp,
            "dt": self.dt,
            "equity": 1.0,
            "portfolio_value": self.capital,
            "weights": self.weights,
            "turnover": 0.0,
            "cost": 0.0,
            "asset_returns": np.zeros(self._n_assets),
        }
        if self._recorder is not None:
            self._recorder.begin(info, past=self._past_returns(slots, only))
        return ResetResult({name: rows[0] for name, rows in seen.items()}, info)

    def step(self, action: Any) -> StepResult:
        """Trade to the target weights, then let one bar pass.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
            InvalidAction: not in the action space; nothing moves.
        """
        if not self._live:
            raise ResetRequired("The episode has not begun, or has ended: call reset() before step().")
        slots = self._slots
        self._take(action)
        before = None if slots.rewards.is_log else slots.before()
        seen = slots.new_observations()
        weights, asset_returns = slots.advance(
            self._action, self._frozen, self._blocks, self.rng, self._out, self._flags, seen
        )
        (reward,), (equity,), (value,), (turnover,), (cost,), (dt,) = self._out.tolist()
        (terminated,), (truncated,) = self._flags.tolist()
        self._live = not (terminated or truncated)  # before a reward of the user's, which may raise
        if before is not None:
            out, ruined = self._out.copy(), self._flags[0].copy()
            (reward,) = slots.reward(before, out, weights, ruined, self._parameters).tolist()
        info = {
            "timestamp": self.timestamp,
            "dt": dt,
            "equity": equity,
            "portfolio_value": value,
            "weights": weights[0],
            "turnover": turnover,
            "cost": cost,
            "asset_returns": asset_returns[0],
        }
        observation = {"returns": seen["returns"][0], "weights": seen["weights"][0]}
        if self._recorder is not None:
            self._recorder.add(info)
        return StepResult(observation, reward, terminated, truncated, info)

    def _take(self, action: Any) -> None:
        """Check an action and keep it, as a batch of one."""
        given = action
        if type(action) is not np.ndarray:
            try:
                given = np.asarray(action) if not has_masked_entries(action) else np.empty(0)
            except (ValueError, TypeError):
                given = np.empty(0)
        if given.shape == self._action_shape and given.dtype.kind in "fiu":
            if given.dtype != np.float32:
                with np.errstate(over="ignore"):
                    given = given.astype(np.float32)
            self._action[0] = given  # machine code is compiled for arrays of one kind, and that of the caller may vary
            if pk.first_outside.compiled(self._action, self._low) < 0:
                return
        raise InvalidAction(f"The action is {action!r}; expected a member of {self.action_space}.")


def _default_sigma(n_assets: int) -> NDArray[np.float64]:
    return np.linspace(0.15, 0.35, n_assets)


def _count_assets(n_assets: int | None, data: MarketData | None, model: PriceModel | None) -> int:
    if n_assets is None:
        market = model if data is None else data
        return 5 if market is None else market.n_assets
    count = whole_number("n_assets", n_assets, minimum=1)
    if model is not None and count != model.n_assets:
        raise ValueError(f"n_assets is {count}, and model={model!r} has {model.n_assets}; leave n_assets out.")
    if data is not None and count != data.n_assets:
        raise ValueError(
            f"n_assets is {count}, and the history has {data.n_assets} columns; leave n_assets out, or give a history "
            "with a column for each asset."
        )
    return count
