"""OptimalExecution-v0, the single environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import ResetResult, StepResult
from sekai.envs.finance import checks, pictures
from sekai.envs.finance.execution import kernel as xk
from sekai.envs.finance.execution.slots import INFO_KEYS, ExecutionSlots, ParameterBlocks
from sekai.envs.finance.parameters import Parameter, ParameterEnv
from sekai.envs.finance.rendering import RENDER_FPS, RENDER_MODES
from sekai.errors import InvalidAction, ResetRequired
from sekai.seeding import Seed, check_seed
from sekai.spaces import Box
from sekai.spaces.checks import has_masked_entries, whole_number

Options = dict[str, Any] | None


def _share(name: str, value: Any) -> float:
    number = checks.positive(name, value)
    if number > 1:
        raise ValueError(f"{name} is {value!r}; expected a share of the volume, in (0, 1].")
    return number


def _volume(name: str, value: Any) -> float | NDArray[np.float64] | None:
    """None, a number, or a private read-only copy of one number for each step."""
    if value is None:
        return None
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes)) or np.ndim(value) == 0:
        return checks.not_negative(name, value)
    if np.ndim(value) != 1 or has_masked_entries(value):
        raise TypeError(f"{name} is {value!r}; expected one number, or a sequence of one for each step.")
    volumes = np.array([checks.not_negative(f"{name}[{i}]", entry) for i, entry in enumerate(value)])
    volumes.flags.writeable = False
    return volumes


class OptimalExecutionEnv(ParameterEnv):
    """Sell (or buy) a large order in slices: fast costs impact, slow risks the price (Almgren and Chriss 2000).

    Each slice trades at the mid price it meets, worse by half the spread and by the temporary impact of its size; then
    the mid moves by its permanent impact and by noise. Accounting and formulas: `execution.kernel`.

    - Observation: float32 `(3,)`: shares left / initial shares; time left / total time; mid / arrival price - 1.
    - Action: `Box(0, 1, (1,))`, the fraction of what is left to trade in this slice. The last slice trades the rest.
      No slice trades more than `max_participation` times the volume of its step.
    - Reward: minus what the slice adds to the implementation shortfall (what is left valued at the mid), in basis
      points of `initial_inventory * s0`; less `risk_aversion * sigma^2 * dt * left^2` in the same unit. With
      `risk_aversion=0` rewards add up to `-shortfall_bps`. Their expected sum is minus the objective `E + lambda V` of
      the paper, in basis points.
    - End: everything is traded, or `n_steps` slices are: terminated, since the deadline is part of the task. What
      `max_participation` leaves over then is charged as one more slice at the last mid price, with spread and temporary
      impact and without a cap; it stays visible as `inventory`.
    - Info: `timestamp` (time since the start) and `dt`, in the unit of `total_time`; `shares_sold` in this slice
      (bought, on the buy side; never negative) and their `execution_price` (the mid where none were); `mid_price` and
      `inventory` (shares still to trade) after it; `implementation_shortfall` of the episode so far in money, and in
      basis points `shortfall_bps`, the sum of `spread_bps`, `temporary_bps`, `permanent_bps` and `timing_bps`.
      Costs are positive.
    - `reset(options=...)` knows no options.

    The mid price is an arithmetic Brownian motion, drawn from the environment's generator; it may fall below 0 where
    `sigma * sqrt(total_time)` is not small against `s0`.

    Args:
        initial_inventory: shares to trade, `X`.
        s0: arrival price, `S_0`.
        sigma: volatility, in money per share and square root of time.
        total_time: time to trade in, `T`; its unit (days in the paper) is that of `sigma` and `temporary_impact`.
        n_steps: slices, `N`.
        permanent_impact: `gamma`: money per share that the mid moves for each share traded.
        temporary_impact: `eta`: money per share that a slice pays for each share per unit of time.
        fixed_cost: `eps`: money per share that every share pays, half the spread and fees.
        risk_aversion: `lambda`, per unit of money.
        side: "sell" or "buy".
        max_participation: largest share of the market's volume that a slice may trade, in `(0, 1]`; None: no cap.
        volume: shares that the market trades in each step: one number or `n_steps` of them, none negative. It is
            needed by `max_participation`, and without that changes nothing.
        shock_clip: bound of the one-step shocks, in standard deviations; None: none.
        render_mode: None, or "rgb_array": `render` returns a picture of the episode so far, uint8 `(H, W, 3)`.

    Attributes:
        initial_inventory, s0, side: as given; they may be set, and act from the next reset on.
        n_steps, total_time, sigma, permanent_impact, temporary_impact, fixed_cost, risk_aversion, max_participation,
            volume, shock_clip: as given; they may be set, and act from the next step on. The clock counts slices, so
            that `n_steps` and `total_time` also change how much time an episode under way has left.
    """

    fresh_infos = True
    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS, "finite_horizon": True}  # noqa: RUF012  # gymnasium declares it so
    _picture = pictures.EXECUTION

    initial_inventory = Parameter(checks.positive, "Shares to trade; acts at the next reset.")
    s0 = Parameter(checks.positive, "Arrival price; acts at the next reset.")
    sigma = Parameter(checks.not_negative, "Volatility, in money per share and square root of time.")
    total_time = Parameter(checks.positive, "Time to trade in.")
    n_steps = Parameter(lambda name, value: whole_number(name, value, minimum=1), "Slices.")
    permanent_impact = Parameter(checks.not_negative, "Move of the mid for each share traded.")
    temporary_impact = Parameter(checks.not_negative, "Price of each share traded per unit of time.")
    fixed_cost = Parameter(checks.not_negative, "Price of each share traded.")
    risk_aversion = Parameter(checks.not_negative, "Price of variance, per unit of money.")
    side = Parameter(checks.one_of("sell", "buy"), "Whether to sell or to buy; acts at the next reset.")
    max_participation = Parameter(checks.or_none(_share), "Largest share of the volume of a step.")
    volume = Parameter(_volume, "Shares that the market trades in each step.")
    shock_clip = Parameter(checks.or_none(checks.positive), "Bound of the shocks, in standard deviations.")

    def __init__(
        self,
        *,
        initial_inventory: float = 1e6,
        s0: float = 50.0,
        sigma: float = 0.95,
        total_time: float = 5.0,
        n_steps: int = 25,
        permanent_impact: float = 2.5e-7,
        temporary_impact: float = 2.5e-6,
        fixed_cost: float = 0.0625,
        risk_aversion: float = 1e-6,
        side: str = "sell",
        max_participation: float | None = None,
        volume: Any = None,
        shock_clip: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._record_for(render_mode)
        super().__init__(
            initial_inventory=initial_inventory,
            s0=s0,
            sigma=sigma,
            total_time=total_time,
            n_steps=n_steps,
            permanent_impact=permanent_impact,
            temporary_impact=temporary_impact,
            fixed_cost=fixed_cost,
            risk_aversion=risk_aversion,
            side=side,
            max_participation=max_participation,
            volume=volume,
            shock_clip=shock_clip,
        )
        self.observation_space = Box([0.0, 0.0, -np.inf], [1.0, 1.0, np.inf])
        self.action_space = Box(0.0, 1.0, (1,))
        self._slots: ExecutionSlots = ExecutionSlots(1, self._blocks)
        self._live = False
        self._frozen = np.zeros(1, bool)
        self._action = np.zeros((1, 1), np.float32)
        self._shock = np.zeros(1)
        self._out = np.zeros((xk.OUT_ROWS, 1))
        self._terminated = np.zeros(1, bool)

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        self._blocks = ParameterBlocks(parameters)

    # ---- state ----------------------------------------------------------------------------------

    @property
    def price(self) -> float:
        """The mid price."""
        return float(self._slots.state[xk.MID, 0])

    mid = price

    @property
    def inventory(self) -> float:
        """Shares still to trade."""
        return float(self._slots.state[xk.INVENTORY, 0])

    @property
    def shortfall(self) -> float:
        """Implementation shortfall of the episode so far, in money; what is left is valued at the mid."""
        return float(self._slots.shortfall[0])

    @property
    def shortfall_bps(self) -> float:
        """The same in basis points of the initial value."""
        return float(self._slots.shortfall_bps[0])

    @property
    def elapsed_steps(self) -> int:
        """Slices traded in the current episode."""
        return int(self._slots.clock[xk.STEP, 0])

    @property
    def dt(self) -> float:
        """Length of a slice, `total_time / n_steps`."""
        return float(self._blocks.params[xk.DT])

    @property
    def timestamp(self) -> float:
        """Time since the start of the episode."""
        return self.elapsed_steps * self.dt

    @property
    def time_remaining(self) -> float:
        """Time left to trade in."""
        return float(max(self.n_steps - self.elapsed_steps, 0) * self.dt)

    # ---- episodes -------------------------------------------------------------------------------

    def check_options(self, options: Options) -> None:
        """Raise for options that `reset` would refuse: all but None and `{}`."""
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options is {options!r}; expected None or an empty dict.")
        if options:
            raise ValueError(
                f"options has the key {next(iter(options))!r}; this environment knows no options: its market is "
                "simulated, and has no rows to start from."
            )

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode: nothing traded, the mid at the arrival price."""
        self.check_options(options)
        self._set_rng(check_seed(seed))
        slots = self._slots
        slots.start(slots.every, self._blocks)
        self._live = True
        observation = np.empty((1, 3), np.float32)
        slots.observe(slots.every, self._blocks, observation)
        info = dict.fromkeys(INFO_KEYS, 0.0)
        info["dt"], info["inventory"] = self.dt, self.inventory
        info["execution_price"] = info["mid_price"] = self.price
        if self._recorder is not None:
            self._recorder.begin(info)
        return ResetResult(observation[0], info)

    def step(self, action: Any) -> StepResult:
        """Trade a fraction of what is left, then let the price move.

        Args:
            action: `(1,)`, in `[0, 1]`; rounded to float32. The `ClipAction` wrapper suits policies that overshoot.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
            InvalidAction: anything else than one number in `[0, 1]`; nothing moves.
        """
        if not self._live:
            raise ResetRequired("The episode has not begun, or has ended: call reset() before step().")
        self._take(action)
        self._shock[0] = self.rng.standard_normal()
        observation = np.empty((1, 3), np.float32)
        self._slots.advance(
            self._action, self._frozen, self._blocks, self._shock, self._out, self._terminated, observation
        )
        reward, *values = self._out[:, 0].tolist()
        terminated = self._terminated.item()
        self._live = not terminated
        info = dict(zip(INFO_KEYS, values, strict=True))
        if self._recorder is not None:
            self._recorder.add(info)
        return StepResult(observation[0], reward, terminated, False, info)

    def _take(self, action: Any) -> None:
        """Put the action where the kernel reads it; raise for what is none."""
        given = action
        if not (type(action) is np.ndarray and action.shape == (1,) and action.dtype == np.float32):
            given = _as_fraction(action)
        if given is None or not 0.0 <= given.item() <= 1.0:
            raise InvalidAction(f"The action is {action!r}; expected a member of {self.action_space}.")
        self._action[0, 0] = given[0]


def _as_fraction(action: Any) -> NDArray[np.float32] | None:
    """One number in an array, rounded to float32 as a batch is; None for anything else."""
    try:
        array = np.asarray(action)
    except (ValueError, TypeError):
        return None
    if array.shape != (1,) or array.dtype.kind not in "fiu" or has_masked_entries(action):
        return None
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
