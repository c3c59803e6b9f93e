"""MarketMaking-v0, the single environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import ResetResult, StepResult
from sekai.envs.finance import checks, pictures
from sekai.envs.finance.making import kernel as mk
from sekai.envs.finance.making.slots import MarketMakingSlots, parameter_block
from sekai.envs.finance.parameters import Fixed, Parameter, ParameterEnv
from sekai.envs.finance.rendering import RENDER_FPS, RENDER_MODES
from sekai.errors import InvalidAction, ResetRequired
from sekai.seeding import Seed, check_seed
from sekai.spaces import Box
from sekai.spaces.checks import has_masked_entries, whole_number

Options = dict[str, Any] | None


class MarketMakingEnv(ParameterEnv):
    """Quote a bid and an ask around a mid price, and carry the inventory that gets filled.

    The market of Avellaneda and Stoikov (2008): an arithmetic Brownian mid price, and orders that reach a quote at
    distance `d` at the rate `fill_intensity * exp(-fill_decay * d)`. In a step the quotes stand around the mid price
    just seen; each side is filled at most once, by one order of `order_size` units, both sides independently and
    judged on the inventory before the step; then the mid moves. A side whose fill would carry the inventory beyond
    `max_inventory` is not filled. Accounting: `making.kernel`.

    - Observation: float32 `(2,)`: inventory over `max_inventory`, time left over `total_time`.
    - Action: `Box(0, max_offset, (2,))`, distances of bid and ask from the mid price, in price units. Distances
      outside are refused; `sekai.ClipAction` clips them.
    - Reward: change of wealth (cash and the inventory at the mid price), less
      `0.5 * risk_aversion * sigma**2 * dt * inventory**2` for the inventory held while the mid moved, less
      `terminal_penalty * inventory**2` at the last step. Price units times units.
    - End: step `n_steps` terminates; nothing is liquidated. The deadline belongs to the task.
    - Info: `timestamp` (steps taken), `dt`, `mid_price`, `inventory`, `cash`, `wealth`, `bid` and `ask` (the quotes
      of this step; after a reset the mid price), `bid_filled`, `ask_filled`, and the two parts of the change of
      wealth in this step: `spread_pnl` (filled units times their distances) and `inventory_pnl` (inventory after the
      fills times the move of the mid).

    Args:
        s0: mid price at the start of an episode, above 0.
        sigma: volatility of the mid, price units per square root of time.
        total_time: length of an episode, in the unit of time of `sigma` and `fill_intensity`.
        n_steps: steps of an episode, at least 1; `dt` is `total_time / n_steps`.
        fill_intensity: orders per unit of time that reach a quote at the mid, `A`.
        fill_decay: how fast they become fewer with the distance, `k`, per price unit.
        fill_model: probability of a fill in a step: "poisson", `1 - exp(-A exp(-k d) dt)`, or "bernoulli",
            `min(1, A exp(-k d) dt)`, which the simulation of Avellaneda and Stoikov uses.
        risk_aversion: weight of the inventory risk in the reward, at least 0.
        max_inventory: bound of the absolute inventory, in units, at least 1.
        order_size: units of a fill, from 1 to `max_inventory`.
        max_offset: largest distance of a quote from the mid.
        terminal_penalty: see Reward, at least 0.
        shock_clip: bound of one-step shocks of the mid, in standard deviations; None: none.
        render_mode: None, or "rgb_array": `render` returns a picture of the episode so far, uint8 `(H, W, 3)`.

    Attributes:
        s0, sigma, total_time, fill_intensity, fill_decay, fill_model, risk_aversion, order_size, terminal_penalty,
            shock_clip: as given; they may be set, and act from the next step (`s0`: reset) on.
        n_steps, max_inventory, max_offset: as given; read-only.

    Raises:
        TypeError, ValueError: an argument that does not fit; the message names it.
    """

    fresh_infos = True
    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS, "finite_horizon": True}  # noqa: RUF012  # gymnasium declares it so
    _picture = pictures.MAKING

    s0 = Parameter(checks.positive, "Mid price at the start of an episode; acts at the next reset.")
    sigma = Parameter(checks.not_negative, "Volatility of the mid, per square root of time.")
    total_time = Parameter(checks.positive, "Length of an episode.")
    fill_intensity = Parameter(checks.not_negative, "Orders per unit of time that reach a quote at the mid.")
    fill_decay = Parameter(checks.not_negative, "How fast they become fewer with the distance.")
    fill_model = Parameter(checks.one_of("poisson", "bernoulli"), "Probability of a fill in a step.")
    risk_aversion = Parameter(checks.not_negative, "Weight of the inventory risk in the reward.")
    order_size = Parameter(lambda name, value: whole_number(name, value, minimum=1), "Units of a fill.")
    terminal_penalty = Parameter(checks.not_negative, "Weight of the squared inventory in the last reward.")
    shock_clip = Parameter(checks.or_none(checks.positive), "Bound of shocks of the mid, in standard deviations.")

    def __init__(
        self,
        *,
        s0: float = 100.0,
        sigma: float = 2.0,
        total_time: float = 1.0,
        n_steps: int = 200,
        fill_intensity: float = 140.0,
        fill_decay: float = 1.5,
        fill_model: str = "poisson",
        risk_aversion: float = 0.1,
        max_inventory: int = 50,
        order_size: int = 1,
        max_offset: float = 5.0,
        terminal_penalty: float = 0.0,
        shock_clip: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._n_steps = whole_number("n_steps", n_steps, minimum=1)
        self._max_inventory = whole_number("max_inventory", max_inventory, minimum=1)
        self._max_offset = checks.positive("max_offset", max_offset)
        self._record_for(render_mode)
        super().__init__(
            s0=s0,
            sigma=sigma,
            total_time=total_time,
            fill_intensity=fill_intensity,
            fill_decay=fill_decay,
            fill_model=fill_model,
            risk_aversion=risk_aversion,
            order_size=order_size,
            terminal_penalty=terminal_penalty,
            shock_clip=shock_clip,
        )
        self.observation_space = Box(np.array([-1, 0], np.float32), np.array([1, 1], np.float32), dtype=np.float32)
        self.action_space = Box(0.0, self._max_offset, (2,), np.float32)
        self._highest = float(self.action_space.high[0])
        self._slots: MarketMakingSlots = MarketMakingSlots(1)
        self._live = False
        self._frozen = np.zeros(1, bool)

    def _apply_parameters(self, parameters: dict[str, Any]) -> None:
        self._block = parameter_block(
            parameters, n_steps=self._n_steps, max_inventory=self._max_inventory, max_offset=self._max_offset
        )

    # ---- arguments that are only read -----------------------------------------------------------

    @Fixed
    def n_steps(self) -> int:
        """Steps of an episode."""
        return self._n_steps

    @Fixed
    def max_inventory(self) -> int:
        """Bound of the absolute inventory."""
        return self._max_inventory

    @Fixed
    def max_offset(self) -> float:
        """Largest distance of a quote from the mid."""
        return self._max_offset

    # ---- state ----------------------------------------------------------------------------------

    @property
    def dt(self) -> float:
        """Length of a step, `total_time / n_steps`."""
        return float(self._block[mk.DT])

    @property
    def mid(self) -> float:
        """The mid price."""
        return float(self._slots.state[mk.MID, 0])

    @property
    def price(self) -> float:
        """The mid price."""
        return self.mid

    @property
    def inventory(self) -> float:
        """Units held, negative when short."""
        return float(self._slots.state[mk.INVENTORY, 0])

    @property
    def cash(self) -> float:
        """What the fills have brought in, 0 at the start of the episode."""
        return float(self._slots.state[mk.CASH, 0])

    @property
    def wealth(self) -> float:
        """Cash, and the inventory at the mid price."""
        return float(self._slots.wealth[0])

    @property
    def bid(self) -> float:
        """The latest bid; the mid price before the first."""
        return float(self._slots.state[mk.BID, 0])

    @property
    def ask(self) -> float:
        """The latest ask; the mid price before the first."""
        return float(self._slots.state[mk.ASK, 0])

    @property
    def elapsed_steps(self) -> int:
        """Steps taken in the current episode."""
        return int(self._slots.clock[0])

    @property
    def timestamp(self) -> int:
        """Steps taken in the current episode."""
        return self.elapsed_steps

    @property
    def time_remaining(self) -> float:
        """Time left in the episode, `total_time` at its start."""
        return self.total_time * (self._n_steps - self.elapsed_steps) / self._n_steps  # type: ignore[no-any-return]

    # ---- episodes -------------------------------------------------------------------------------

    def check_options(self, options: Options) -> None:
        """Raise for options that `reset` would refuse: there are none to give.

        Raises:
            TypeError: no dict.
            ValueError: any key.
        """
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options is {options!r}; expected None or an empty dict.")
        for key in options or ():
            raise ValueError(f"options has the key {key!r}; this environment has no options, leave it out.")

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode: the mid at `s0`, no cash, no inventory."""
        self.check_options(options)
        self._set_rng(check_seed(seed))
        slots = self._slots
        slots.start(slots.every, self._block)
        self._live = True
        observation = slots.new_observations()
        slots.observe(slots.every, self._block, observation)
        mid = self.mid
        info = {
            "timestamp": 0,
            "dt": self.dt,
            "mid_price": mid,
            "inventory": 0.0,
            "cash": 0.0,
            "wealth": 0.0,
            "bid": mid,
            "ask": mid,
            "bid_filled": False,
            "ask_filled": False,
            "spread_pnl": 0.0,
            "inventory_pnl": 0.0,
        }
        if self._recorder is not None:
            self._recorder.begin(info)
        return ResetResult(observation[0], info)

    def step(self, action: Any) -> StepResult:
        """Quote at these distances from the mid, then let the mid move.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
            InvalidAction: no two numbers in `[0, max_offset]`; nothing moves.
        """
        if not self._live:
            raise ResetRequired("The episode has not begun, or has ended: call reset() before step().")
        offsets = self._checked(action)
        observations = self._slots.new_observations()
        out, flags = self._slots.advance(offsets, self._frozen, self._block, self.rng, observations)
        (reward,), (mid,), (inventory,), (cash,), (wealth,), (bid,), (ask,), (spread,), (carried,), (dt,) = out.tolist()
        (terminated,), (truncated,), (bid_filled,), (ask_filled,) = flags.tolist()
        self._live = not terminated
        info = {
            "timestamp": self.elapsed_steps,
            "dt": dt,
            "mid_price": mid,
            "inventory": inventory,
            "cash": cash,
            "wealth": wealth,
            "bid": bid,
            "ask": ask,
            "bid_filled": bid_filled,
            "ask_filled": ask_filled,
            "spread_pnl": spread,
            "inventory_pnl": carried,
        }
        if self._recorder is not None:
            self._recorder.add(info)
        return StepResult(observations[0], reward, terminated, truncated, info)

    def _checked(self, action: Any) -> NDArray[np.float32]:
        """The action as the kernel takes it, `(1, 2)`."""
        try:
            given = np.asarray(action)
        except (ValueError, TypeError):
            given = np.empty(())
        if given.shape != (2,) or given.dtype.kind not in "fiu" or has_masked_entries(action):
            raise InvalidAction(f"The action is {action!r}; expected a member of {self.action_space}.")
        with np.errstate(over="ignore"):
            offsets: NDArray[np.float32] = given.astype(np.float32).reshape(1, 2)
        if mk.first_outside.compiled(offsets, self._frozen, self._highest) >= 0:
            raise outside_error("The action", action, self)
        return offsets


def outside_error(what: str, action: Any, env: MarketMakingEnv) -> InvalidAction:
    """The error for distances outside the action space of `env`."""
    return InvalidAction(
        f"{what} is {action}; expected distances of bid and ask from the mid in [0, {env.max_offset}], a member of "
        f"{env.action_space}: clip them, as sekai.ClipAction and sekai.VecClipAction do."
    )
