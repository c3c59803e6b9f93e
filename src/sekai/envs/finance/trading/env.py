"""Trading-v0, the single environment."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import ResetResult, StepResult
from sekai.envs.finance import checks, pictures
from sekai.envs.finance.market import check_model, check_unused
from sekai.envs.finance.parameters import Fixed, Parameter, ParameterEnv
from sekai.envs.finance.rendering import RENDER_FPS, RENDER_MODES
from sekai.envs.finance.trading import kernel as tk
from sekai.envs.finance.trading.slots import EXECUTIONS, TradingSlots, parameter_block
from sekai.envs.finance.windows import count_windows, history, sampled_rows, share_history, start_row
from sekai.errors import InvalidAction, ResetRequired
from sekai.finance.costs import as_cost_model, choose_cost_model
from sekai.finance.data import MarketData
from sekai.finance.models import PriceModel
from sekai.finance.rewards import Reward, as_reward
from sekai.finance.samplers import RandomStart, as_sampler
from sekai.seeding import Seed, check_seed
from sekai.spaces import Box, Discrete
from sekai.spaces.checks import whole_number

Options = dict[str, Any] | None

MU, SIGMA = 0.05, 0.2  # of the built-in market


class TradingEnv(ParameterEnv):
    """Choose the exposure to one asset, bar by bar.

    At row `t` the agent sees the prices up to `t`, the close of the bar included, and chooses a target exposure. Where
    the trade fills (`execution`), the exposure after the cost is exactly the target:

    - "close": at that same close, which the decision has seen: optimistic, and the usual convention of backtests.
    - "next_open": at the open of row `t + 1`, which it has not seen; until then the old position is held.
    - "next_close": at the close of row `t + 1`, a whole bar late.

    Then the price is that of row `t + 1`. Accounting: `trading.kernel`.

    - Observation: float32 `(lookback + 1,)`: the last `lookback` log returns, oldest first, the newest the one into
      row `t`; then the current exposure, drifted since the last trade.
    - Action: `Discrete(len(positions))`, the place of the target in `positions`.
    - Reward: log growth of equity over the step, cost and interest included, or what `reward` says. Log growths add
      up to `ln(equity at the end / equity at the start)`.
    - End: the last row of the window truncates; nothing is liquidated. Equity at or below
      `max(ruin_fraction, 1e-8)` of the start terminates; equity below 1e-8 counts as 1e-8 in that last reward and
      in the last exposure. Both flags are true when ruin falls on the last row.
    - Info: `timestamp` (row or date of the state just observed, that is of the next decision), `dt`, `equity` (1 at
      the start), `position` (current exposure), `price`, `asset_return` (simple, of this step), and `cost`,
      `turnover` (value traded) and `carry` (interest) of this step as fractions of the equity at row `t`.
      After a reset the last four are 0.
    - `reset(options={"start": row})`: row of the first decision. A negative row counts from the end; a date is
      accepted where the data have dates.

    Without a history the price is a geometric Brownian motion of drift `mu`, or what `model` says, drawn from the
    environment's generator. Its rows count from 0, where it is `s0`; the first decision is at row `lookback`.

    Args:
        prices: `(T,)`, the history; or None.
        data: the history as a `MarketData`; or None.
        episode_length: steps of an episode, at least 1.
        lookback: returns in the observation, at least 1.
        positions: target exposures: 1 is all of the equity, -1 short by as much, 2 leveraged twice.
        transaction_cost: shorthand for a proportional `cost_model`; by default 1e-3 of the value traded.
        cost_model: a rate, or a `CostModel` of `sekai.finance`, such as `ProportionalCost(5e-4) + FixedCost(1e-6)`.
            Rate times largest exposure must stay below 1.
        mu: drift of the simulated price, per year.
        sigma: its volatility, per square root of a year.
        dt: length of a bar in years, by default 1/252; interest accrues over it.
        s0: the simulated price at row 0.
        model: a `PriceModel` of one asset to simulate instead; `mu`, `sigma` and `shock_clip` are then left out.
        reward: a `sekai.finance.Reward`, or "log" (the default), "simple", "pnl", "mean_variance",
            "differential_sharpe" or "drawdown". What it remembers of an episode belongs to it: it cannot be set later.
        sampler: which windows of a history to run through: "random", "sequential" or an `EpisodeSampler`.
        capital: what the equity at the start is worth, in money; profit and loss are counted in it.
        shock_clip: bound of simulated one-step shocks, in standard deviations; None: none.
        ruin_fraction: in `[0, 1)`, see End.
        execution: "close", "next_open" (the history is a `MarketData` with the field "open") or "next_close". Interest
            accrues on what is held after the fill, with "next_close" on what was held before it.
        rebalance: "always" trades back to the target at every step; "on_change" trades only when another target
            than last time is chosen (flat before the first), and lets the exposure drift otherwise.
        borrow_rate: paid per year on the value of shares sold short.
        margin_rate: paid per year on borrowed cash.
        cash_rate: earned per year on own cash (proceeds of short sales earn nothing).
        render_mode: None, or "rgb_array": `render` returns a picture of the episode so far, uint8 `(H, W, 3)`.

    Attributes:
        cost_model, mu, sigma, positions, dt, s0, shock_clip, ruin_fraction, rebalance, borrow_rate, margin_rate,
            cash_rate, capital, sampler: as given; they may be set, and act from the next step (`s0` and `sampler`:
            reset) on. `positions` keeps its length.
        lookback, episode_length, prices, data, model, reward, transaction_cost, execution: as given; read-only.
    """

    fresh_infos = True
    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}  # noqa: RUF012  # gymnasium declares it so
    _picture = pictures.TRADING
    _kept = ("_live", "_first_row")

    mu = Parameter(checks.finite, "Drift of the simulated price, per year.")
    sigma = Parameter(checks.not_negative, "Volatility of the simulated price, per square root of a year.")
    dt = Parameter(checks.positive, "Length of a bar, in years.")
    s0 = Parameter(checks.positive, "Simulated price at row 0; acts at the next reset.")
    shock_clip = Parameter(checks.or_none(checks.positive), "Bound of simulated shocks, in standard deviations.")
    positions = Parameter(checks.exposures, "Target exposures, by action.")
    cost_model = Parameter(lambda name, value: as_cost_model(value, name), "What a trade costs.")
    ruin_fraction = Parameter(checks.fraction, "Equity at or below this fraction of the start terminates.")
    rebalance = Parameter(checks.one_of("always", "on_change"), "When to trade.")
    borrow_rate = Parameter(checks.finite, "Paid per year on the value of shares sold short.")
    margin_rate = Parameter(checks.finite, "Paid per year on borrowed cash.")
    cash_rate = Parameter(checks.finite, "Earned per year on own cash.")
    capital = Parameter(checks.positive, "What the equity at the start is worth, in money.")
    sampler = Parameter(lambda _, value: as_sampler(value), "Which windows to run through; acts at the next reset.")

    def __init__(
        self,
        prices: Any = None,
        *,
        data: MarketData | None = None,
        episode_length: int = 252,
        lookback: int = 30,
        positions: Any = (-1.0, 0.0, 1.0),
        transaction_cost: float | None = None,
        cost_model: Any = None,
        mu: float = MU,
        sigma: float = SIGMA,
        dt: float | None = None,
        s0: float = 100.0,
        model: PriceModel | None = None,
        reward: Any = None,
        sampler: Any = "random",
        capital: float = 1e6,
        shock_clip: float | None = None,
        ruin_fraction: float = 0.0,
        execution: str = "close",
        rebalance: str = "always",
        borrow_rate: float = 0.0,
        margin_rate: float = 0.0,
        cash_rate: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        self._data = _one_asset(history(prices, data))
        self._model = _of_one_asset(check_model(model, self._data))
        self._episode_length = whole_number("episode_length", episode_length, minimum=1)
        self._lookback = whole_number("lookback", lookback, minimum=1)
        self._execution = _check_execution(execution, self._data)
        self._reward = as_reward(reward)
        self._record_for(render_mode)
        self._num_windows = 0
        if self._data is not None:
            self._num_windows = count_windows(self._data, self._lookback, self._episode_length)
        super().__init__(
            mu=mu,
            sigma=sigma,
            dt=1 / 252 if dt is None else dt,
            s0=s0,
            shock_clip=shock_clip,
            positions=positions,
            cost_model=choose_cost_model(transaction_cost, cost_model),
            ruin_fraction=ruin_fraction,
            rebalance=rebalance,
            borrow_rate=borrow_rate,
            margin_rate=margin_rate,
            cash_rate=cash_rate,
            capital=capital,
            sampler=sampler,
        )
        self.observation_space = Box(-np.inf, np.inf, (self._lookback + 1,), np.float32)
        self.action_space = Discrete(len(self.positions))
        self._slots: TradingSlots = TradingSlots(
            1, self._data, self._model, self._execution, self._lookback, self._episode_length, self._reward
        )
        self._first_row = self._lookback
        self._live = False
        self._frozen = np.zeros(1, bool)
        self._action = np.zeros(1, np.int64)
        self._out = np.zeros((tk.OUT_ROWS, 1))
        self._flags = np.zeros((2, 1), bool)

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        if self._parameters and len(parameters["positions"]) != len(self.positions):
            raise ValueError(
                f"positions has {len(parameters['positions'])} entries; expected {len(self.positions)}, since the "
                "action space is fixed: make a new environment."
            )
        if self._data is None and not isinstance(parameters["sampler"], RandomStart):
            raise ValueError(
                f"sampler is {parameters['sampler']!r}, and a simulated market has no windows to choose from: give "
                "prices or data."
            )
        mu, sigma, clip = (parameters[name] for name in ("mu", "sigma", "shock_clip"))
        check_unused(self._model, mu=mu != MU, sigma=sigma != SIGMA, shock_clip=clip is not None)
        self._block = parameter_block(parameters, given=self._model is not None, execution=self._execution)

    def _past_returns(self, slots: TradingSlots, indices: NDArray[np.int64]) -> NDArray[np.float32]:
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
    def lookback(self) -> int:
        """Returns in the observation."""
        return self._lookback

    @Fixed
    def episode_length(self) -> int:
        """Steps of an episode."""
        return self._episode_length

    @property
    def transaction_cost(self) -> float | None:
        """Rate of the cost model, read-only; None where it has more than a rate."""
        return float(self.cost_model.rates(1)[0]) if self.cost_model.is_proportional else None

    @transaction_cost.setter
    def transaction_cost(self, value: Any) -> None:
        raise AttributeError(f"'transaction_cost' cannot be set; set cost_model = {value!r} instead.")

    @Fixed
    def execution(self) -> str:
        """When a trade fills."""
        return self._execution

    # ---- state ----------------------------------------------------------------------------------

    @property
    def equity(self) -> float:
        """Equity, 1 at the start of the episode."""
        return float(self._slots.state[tk.EQUITY, 0])

    @property
    def position(self) -> float:
        """Current exposure: the value held over equity."""
        return float(self._slots.state[tk.EXPOSURE, 0])

    @property
    def price(self) -> float:
        """Price at the current row."""
        return float(self._slots.state[tk.PRICE, 0])

    @property
    def price_history(self) -> NDArray[np.float64]:
        """The last `lookback + 1` prices, oldest first, the current one included."""
        prices: NDArray[np.float64] = self._slots.price_history[0]
        return prices

    @property
    def timestamp(self) -> Any:
        """Row, or date, of the current state."""
        row = int(self._slots.clock[tk.ROW, 0])
        return row if self._slots.timestamps is None else self._slots.timestamps[row]

    @property
    def elapsed_steps(self) -> int:
        """Steps taken in the current episode."""
        return int(self._slots.clock[tk.ROW, 0]) - self._first_row

    # ---- episodes -------------------------------------------------------------------------------

    @classmethod
    def share_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `windows.share_history`."""
        return share_history(arguments)

    def check_options(self, options: Options) -> None:
        """Raise for options that `reset` would refuse; see `windows.start_row`."""
        start_row(options, self._data, self._lookback, self._num_windows)

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode: flat, with equity 1. A seed also restarts the sampler. See the class for `options`."""
        row = start_row(options, self._data, self._lookback, self._num_windows)
        self._set_rng(check_seed(seed))
        if seed is not None:
            self.sampler.restart()
        slots, only = self._slots, self._slots.every
        if self._data is None:
            slots.start_simulated(only, self.rng, self._block, self._frozen)
        else:
            if row is None:
                position = self.sampler.sample(self.rng, self._num_windows, self._episode_length)
                rows = sampled_rows(np.array([position]), self._data, self._lookback, self._num_windows, self.sampler)
            else:
                rows = np.array([row])
            slots.start(only, rows)
        self._first_row = int(slots.clock[tk.ROW, 0])
        self._live = True
        observation = np.empty((1, self._lookback + 1), np.float32)
        slots.observe(only, observation)
        info = {
            "timestamp": self.timestamp,
            "dt": self.dt,
            "equity": 1.0,
            "position": 0.0,
            "price": self.price,
            "asset_return": 0.0,
            "cost": 0.0,
            "turnover": 0.0,
            "carry": 0.0,
        }
        if self._recorder is not None:
            self._recorder.begin(info, past=self._past_returns(slots, only))
        return ResetResult(observation[0], info)

    def step(self, action: Any) -> StepResult:
        """Trade to the exposure `positions[action]`, then let one bar pass.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
            InvalidAction: no int in `[0, len(positions))`; nothing moves.
        """
        if not self._live:
            raise ResetRequired("The episode has not begun, or has ended: call reset() before step().")
        slots = self._slots
        self._action[0] = self._checked(action)
        shocks = slots.draw(self.rng, self._frozen, self._block)
        observation = np.empty((1, self._lookback + 1), np.float32)
        before = None if slots.rewards.is_log else slots.before()
        slots.advance(self._action, self._frozen, self._block, shocks, self._out, self._flags, observation)
        (reward,), (equity,), (position,), (price,), (asset_return,), (cost,), (turnover,), (carry,), (dt,) = (
            self._out.tolist()
        )
        (terminated,), (truncated,) = self._flags.tolist()
        self._live = not (terminated or truncated)  # before a reward of the user's, which may raise
        if before is not None:
            (reward,) = slots.reward(before, self._out.copy(), self._flags[0].copy(), self._parameters).tolist()
        info = {
            "timestamp": self.timestamp,
            "dt": dt,
            "equity": equity,
            "position": position,
            "price": price,
            "asset_return": asset_return,
            "cost": cost,
            "turnover": turnover,
            "carry": carry,
        }
        if self._recorder is not None:
            self._recorder.add(info)
        return StepResult(observation[0], reward, terminated, truncated, info)

    def _checked(self, action: Any) -> int:
        try:
            index = -1 if isinstance(action, bool) else operator.index(action)
        except TypeError:
            index = -1
        if not 0 <= index < len(self.positions):
            raise InvalidAction(f"The action is {action!r}; expected a member of {self.action_space}.")
        return index


def _one_asset(data: MarketData | None) -> MarketData | None:
    if data is not None and data.n_assets != 1:
        raise ValueError(
            f"The history has prices of {data.n_assets} assets; expected one, shape (T,): choose a column, or trade "
            "all of them in Portfolio-v0."
        )
    return data


def _of_one_asset(model: PriceModel | None) -> PriceModel | None:
    if model is not None and model.n_assets != 1:
        raise ValueError(f"model={model!r} has {model.n_assets} assets; expected one: Portfolio-v0 trades several.")
    return model


def _check_execution(execution: Any, data: MarketData | None) -> str:
    if execution not in EXECUTIONS:
        raise ValueError(f"execution is {execution!r}; expected one of {', '.join(map(repr, EXECUTIONS))}.")
    if execution == "next_open" and (data is None or "open" not in data.fields):
        has = "is simulated" if data is None else f"has the fields {sorted(data.fields)}"
        raise ValueError(
            f"execution is 'next_open', and the market {has}; expected a history with opens: "
            "data=MarketData(closes, fields={'open': opens})."
        )
    return str(execution)
