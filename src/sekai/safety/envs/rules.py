"""What a step of a safety environment is, once, for the single environment and the native one.

    reward         g of the state after the step, unscaled
    info["l_x"]    l of that state; absent where the system has no target
    terminated     g < 0; with end_criterion "reach-avoid" also l >= 0, with "timeout" never
    truncated      the time limit, and not terminated

Arrays have a leading axis of slots, `N`; the single environment has one slot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.systems.base import System
from sekai.safety.systems.named import as_system
from sekai.safety.systems.sets import Bounded
from sekai.spaces import Box
from sekai.spaces.checks import whole_number

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Options = dict[str, Any] | None
Policy = Callable[[Floats], Any]

END_CRITERIA = ("failure", "reach-avoid", "timeout")


class Outcome(NamedTuple):
    """What a step did.

    Attributes:
        states: the states after it, `(N, S)`.
        rewards: their safety margins g, `(N,)`.
        terminated, truncated: bool `(N,)`.
        infos: `executed_action` `(N, U)`, `l_x` `(N,)` where there is a target, `disturbance` `(N, D)` where there is
            one.
    """

    states: Floats
    rewards: Floats
    terminated: Flags
    truncated: Flags
    infos: dict[str, Any]


@dataclass(frozen=True)
class Rules:
    """A system as an environment.

    Attributes:
        system: the dynamics and margins.
        end_criterion: "failure", "reach-avoid" or "timeout".
        time_limit: steps of an episode.
        disturbance: "zero", "random" (evenly over the system's set), "worst" (the system's `worst_disturbance`),
            "player" (the last `D` numbers of an action), or a function of states `(N, S)` that gives `(N, D)`, or
            anything that can be broadcast to it.
    """

    system: System
    end_criterion: str
    time_limit: int
    disturbance: str | Policy

    @classmethod
    def of(
        cls,
        system: System | str,
        end_criterion: str,
        time_limit: int | None,
        disturbance: str | Policy,
        parameters: dict[str, Any],
    ) -> Rules:
        """The rules of the arguments of `SafetyEnv`, checked."""
        made = as_system(system, parameters)
        if end_criterion not in END_CRITERIA:
            raise ValueError(f"end_criterion is {end_criterion!r}; expected one of {', '.join(END_CRITERIA)}.")
        if end_criterion == "reach-avoid" and not made.provides_l:
            raise ValueError(f"end_criterion is 'reach-avoid', and {made} has no target to reach: use 'failure'.")
        check_disturbance(made, disturbance)
        limit = made.time_limit if time_limit is None else whole_number("time_limit", time_limit, minimum=1)
        return cls(made, end_criterion, limit, disturbance)

    def observation_space(self) -> Box:
        """Observations, float32, unbounded."""
        return Box(-np.inf, np.inf, (self.system.observation_size,), np.float32)

    def action_space(self) -> Box:
        """See `action_box`. Actions outside are clipped to it."""
        return action_box(self.system, self.disturbance)

    def observe(self, states: Floats) -> NDArray[np.float32]:
        """Observations of states `(N, S)`, new float32 `(N, observation_size)`."""
        return np.array(self.system.observe(states), np.float32)

    def check_options(self, options: Options) -> Floats | None:
        """The state that the options of a reset ask for, `(S,)`; None where they leave the choice.

        Raises:
            TypeError, ValueError: other options than `{"state": numbers}`.
        """
        if options is None:
            return None
        if set(options) - {"state"}:
            raise ValueError(
                f"options is {options!r}; expected {{'state': {self.system.state_size} numbers}}, or None."
            )
        if "state" not in options:
            return None
        state = np.array(options["state"], np.float64)
        if state.shape != (self.system.state_size,) or not np.isfinite(state).all():
            names = ", ".join(self.system.state_names)
            raise ValueError(f"options['state'] is {options['state']!r}; expected finite numbers ({names}).")
        return state

    def start(self, rng: np.random.Generator, options: list[Options]) -> Floats:
        """States to start from, one for each of the options, `(N, S)`; the generator moves on alike for all options."""
        states: Floats = self.system.start(rng.random((len(options), self.system.state_size)))
        for slot, given in enumerate(options):
            chosen = self.check_options(given)
            if chosen is not None:
                states[slot] = chosen
        return states

    def step(self, rng: np.random.Generator, states: Floats, actions: Any, elapsed: NDArray[np.int64]) -> Outcome:
        """One step of every slot.

        Args:
            rng: of random disturbances.
            states: `(N, S)`, left as they are.
            actions: `(N, U)`, clipped to the system's box; `(N, U + D)` where the disturbance is a player's, which is
                projected into its set.
            elapsed: steps that each episode had before, `(N,)`.
        """
        system = self.system
        given = np.asarray(actions, np.float64)
        controls = system.control.project(given[:, : system.control.size])
        disturbances = self._disturbances(rng, states, given[:, system.control.size :])
        after = system.step(states, controls, disturbances)
        g = system.g(after)
        plays = self.disturbance == "player"
        infos: dict[str, Any] = {"executed_action": np.concatenate([controls, disturbances], 1) if plays else controls}
        if disturbances is not None:
            infos["disturbance"] = disturbances
        terminated = g < 0
        if self.end_criterion == "timeout":
            terminated = np.zeros_like(terminated)
        if system.provides_l:
            infos["l_x"] = system.l(after)
            if self.end_criterion == "reach-avoid":
                terminated = terminated | (infos["l_x"] >= 0)
        return Outcome(after, g, terminated, ~terminated & (elapsed + 1 >= self.time_limit), infos)

    def _disturbances(self, rng: np.random.Generator, states: Floats, played: Floats) -> Floats | None:
        bounded = self.system.disturbance
        if bounded is None:
            return None
        if self.disturbance == "player":
            projected: Floats = bounded.project(played)
            return projected
        shape = (len(states), bounded.size)
        if self.disturbance == "random":
            drawn: Floats = bounded.sample(rng.random(shape))
            return drawn
        if self.disturbance == "worst":
            return np.full(shape, self.system.worst_disturbance)
        if not callable(self.disturbance):
            return np.zeros(shape)
        chosen = np.broadcast_to(np.asarray(self.disturbance(states.copy()), np.float64), shape)
        if not np.isfinite(chosen).all():
            raise ValueError(f"The disturbance policy {self.disturbance} gave {chosen}; expected finite numbers.")
        admissible: Floats = bounded.project(chosen)
        return admissible


def action_box(system: System, disturbance: Any) -> Box:
    """The actions of an environment of a system, float32: controls, then the disturbance where it is "player".

    Of a disturbance set that is no box it is the box around it.
    """
    low, high = system.control.low, system.control.high
    if disturbance == "player" and system.disturbance is not None:
        low, high = low + system.disturbance.low, high + system.disturbance.high
    return Box(np.array(low), np.array(high), dtype=np.float32)


def check_disturbance(system: System, disturbance: Any) -> None:
    """Raise `ValueError` for what is no disturbance policy of a system."""
    if disturbance not in ("zero", "random", "worst", "player") and not callable(disturbance):
        raise ValueError(
            f"disturbance is {disturbance!r}; expected 'zero', 'random', 'worst', 'player' or a function of the states."
        )
    if disturbance != "zero" and system.disturbance is None:
        raise ValueError(f"disturbance is {disturbance!r}, and {system} has no place for one: leave it out.")
    if disturbance == "worst" and system.worst_disturbance is None:
        raise ValueError(
            f"disturbance is 'worst', and none is known that is the worst in every state of {system}: give a function "
            "of the states."
        )


class OfSystem:
    """What an environment of a system declares, for learners.

    Attributes:
        system: the dynamics and margins.
        provides_l: whether steps have target margins.
        ctrl_action_dim: how many numbers of an action are the control's, where the others are the disturbance's; None
            where all are.
    """

    system: System
    provides_l: bool
    ctrl_action_dim: int | None = None

    @property
    def disturbance_set(self) -> Bounded | None:
        """The disturbances that are executed."""
        return self.system.disturbance

    def _take_players(self, disturbance: Any) -> None:
        """Note whose numbers stand in an action."""
        if disturbance == "player":
            self.ctrl_action_dim = self.system.control.size

    @property
    def dt(self) -> float:
        """Seconds of a step."""
        return self.system.dt

    @property
    def failure_horizon_s(self) -> float | None:
        """Seconds from a state that is doomed to its failure, at most; None where no bound is known."""
        return self.system.failure_horizon_s

    @property
    def g_range(self) -> tuple[float, float] | None:
        """Bounds of the safety margin; of its depth after a failure none is known. None where no bound is known."""
        largest = self.system.g_max
        return None if largest is None else (-math.inf, largest)
