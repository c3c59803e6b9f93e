"""`SafetyEnv`: one system as a single environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core import Env, ResetResult, StepResult
from sekai.core.states import (
    Arrays,
    check_like,
    check_same,
    generator_arrays,
    generator_from,
    join,
    part_of,
    read_state,
)
from sekai.errors import InvalidAction, ResetRequired
from sekai.safety.envs.rules import OfSystem, Options, Policy, Rules
from sekai.safety.systems.base import System
from sekai.seeding import Seed, check_seed


class SafetyEnv(OfSystem, Env[NDArray[np.float32], NDArray[np.float32]]):
    """A system under the contract of safety environments.

    - Observation: float32, what the system's `observe` gives of the state.
    - Action: float32 box of the system's controls, followed by its disturbances where `disturbance` is "player".
      Actions outside are clipped to it; `info["executed_action"]` (float64) is what was executed.
    - Reward: the safety margin g of the state after the step, never scaled; g < 0 is failure.
    - Info: `l_x`, the target margin l of that state, where the system has a target (`provides_l`); `disturbance` where
      it has one.
    - End: terminated as soon as g < 0, truncated at the time limit.
    - `reset(options={"state": numbers})` starts in that state instead of a random one.

    Args:
        system: a `System`, or one of the names in `sekai.safety.systems.named`; then `parameters` are its arguments.
        end_criterion: "failure" as said; "reach-avoid" also terminates inside the target (the sign of the reward tells
            which it was); "timeout" goes on after failures, for pictures and for exact values without an end.
        time_limit: steps of an episode; by default the system's.
        disturbance: "zero", "random" (evenly over the system's set), "worst" (where one is the worst in every state),
            "player" (it is part of the action, see `ctrl_action_dim`) or a function of states `(N, S)`, which gives
            `(N, D)` or what can be broadcast to it.
        parameters: arguments of the system's class, where it was given by name.

    Attributes:
        system: the system.
        provides_l: whether infos have `l_x`.
        state: the current state, float64 `(S,)`.

    Example:
        >>> env = sekai.make("safety/DoubleIntegrator-v0", integrator="euler")
        >>> env.reset(options={"state": [0.95, 1.0]})
        >>> env.step(np.array([-1.0]))  # x = 0.95 + 0.05 = 1.0, so g = 0: it has not failed yet
    """

    fresh_infos = True

    def __init__(
        self,
        system: System | str,
        *,
        end_criterion: str = "failure",
        time_limit: int | None = None,
        disturbance: str | Policy = "zero",
        **parameters: Any,
    ) -> None:
        self._rules = Rules.of(system, end_criterion, time_limit, disturbance, parameters)
        self.system = self._rules.system
        self.provides_l = self.system.provides_l
        self._take_players(disturbance)
        self.observation_space = self._rules.observation_space()
        self.action_space = self._rules.action_space()
        self._states = np.zeros((1, self.system.state_size))
        self._elapsed = np.zeros(1, np.int64)
        self._live = False

    @property
    def state(self) -> NDArray[np.float64]:
        """The current state, a copy."""
        state: NDArray[np.float64] = self._states[0].copy()
        return state

    @property
    def elapsed_steps(self) -> int:
        """Steps taken in the current episode."""
        return int(self._elapsed[0])

    def check_options(self, options: Options) -> None:
        """Raise for options that `reset` would refuse."""
        self._rules.check_options(options)

    def reset(self, *, seed: Seed = None, options: Options = None) -> ResetResult:
        """Start an episode; see the class for `options`."""
        self.check_options(options)
        self._set_rng(check_seed(seed))
        self._states = self._rules.start(self.rng, [options])
        self._elapsed[:] = 0
        self._live = True
        return ResetResult(self._rules.observe(self._states)[0], {})

    def step(self, action: Any) -> StepResult:
        """Hold a control for one step.

        Raises:
            ResetRequired: before the first reset, and after the end of an episode.
            InvalidAction: another shape than the action space has, or no finite numbers; nothing moves.
        """
        if not self._live:
            raise ResetRequired("The episode has not begun, or has ended: call reset() before step().")
        control = np.asarray(action, np.float64)
        if control.shape != self.action_space.shape or not np.isfinite(control).all():
            raise InvalidAction(f"The action is {action!r}; expected finite numbers for {self.action_space}.")
        outcome = self._rules.step(self.rng, self._states, control[None], self._elapsed)
        self._states = outcome.states
        self._elapsed += 1
        (reward,), (terminated,), (truncated,) = (column.tolist() for column in outcome[1:4])
        self._live = not (terminated or truncated)
        info = {
            name: value.item() if (value := column[0]).ndim == 0 else value for name, column in outcome.infos.items()
        }
        return StepResult(self._rules.observe(self._states)[0], reward, terminated, truncated, info)

    def get_state(self) -> Arrays:
        """All that the next calls depend on, as a flat dict of plain arrays; see `NativeVecEnv.get_state`."""
        return {
            "class": np.array(type(self).__qualname__),
            "system": np.array(repr(self.system)),
            **join(rng=generator_arrays(self._np_random), env=self._kept()),
        }

    def set_state(self, state: Any) -> None:
        """Take over what `get_state` of an environment made of the same arguments returned.

        Raises:
            TypeError, ValueError: another environment, or arrays of other names, shapes or dtypes; nothing has changed.
        """
        given = read_state(state)
        identity = {"class": np.array(type(self).__qualname__), "system": np.array(repr(self.system))}
        check_same(given, identity, type(self).__name__)
        check_like({name: array for name, array in given.items() if not name.startswith("rng.")}, {
            **identity, **join(env=self._kept())
        })  # fmt: skip
        rng = generator_from(part_of(given, "rng"))
        own = part_of(given, "env")
        self._states, self._elapsed = own["states"].copy(), own["elapsed"].copy()
        self._live = bool(own["live"])
        self._np_random = rng
        self._np_random_seed = None if rng is None else -1  # gymnasium's word for a seed that is not known

    def _kept(self) -> Arrays:
        return {"states": self._states, "elapsed": self._elapsed, "live": np.array(self._live)}
