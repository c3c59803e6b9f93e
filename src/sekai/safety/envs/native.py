"""`SafetyVecEnv`: many copies of one system, stepped with array operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.states import Arrays
from sekai.safety.envs.rules import OfSystem, Options, Policy, Rules
from sekai.safety.systems.base import System
from sekai.vector import NativeVecEnv
from sekai.vector.base import AutoresetOptions


class SafetyVecEnv(OfSystem, NativeVecEnv):
    """`SafetyEnv` for `num_envs` slots; see there for observations, actions, rewards, infos and ends.

    Args:
        num_envs: number of slots.
        system, end_criterion, time_limit, disturbance, parameters: as for `SafetyEnv`. A disturbance policy is asked
            for all slots at once.
        autoreset, max_episode_steps, autoreset_options: as for `NativeVecEnv`.

    Attributes:
        system: the system.
        provides_l: whether infos have `l_x`.
        states: the current states, float64 `(num_envs, S)`.
    """

    def __init__(
        self,
        num_envs: int,
        system: System | str,
        *,
        end_criterion: str = "failure",
        time_limit: int | None = None,
        disturbance: str | Policy = "zero",
        max_episode_steps: int | None = None,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
        **parameters: Any,
    ) -> None:
        self._rules = Rules.of(system, end_criterion, time_limit, disturbance, parameters)
        self.system = self._rules.system
        self.provides_l = self.system.provides_l
        self._take_players(disturbance)
        super().__init__(
            num_envs,
            self._rules.observation_space(),
            self._rules.action_space(),
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self.states = np.zeros((self.num_envs, self.system.state_size))

    def _check_options(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        for slot, given in zip(indices.tolist(), options, strict=True):
            try:
                self._rules.check_options(given)
            except (TypeError, ValueError) as error:
                error.add_note(f"These are the options of sub-env {slot}.")
                raise

    def _reset_envs(self, indices: NDArray[np.intp], options: list[Options]) -> None:
        self.states[indices] = self._rules.start(self.rng, options)

    def _observe(self) -> NDArray[np.float32]:
        return self._rules.observe(self.states)

    def _observe_rows(self, indices: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        out[indices] = self._rules.observe(self.states[indices])

    def _step(self, actions: NDArray[np.float32]) -> tuple[Any, Any, Any, dict[str, Any]]:
        states, rewards, terminated, truncated, infos = self._rules.step(
            self.rng, self.states, actions, self.elapsed_steps
        )
        # a slot that waits must not go on: a system that diverges would end in infinities
        self.states = np.where(self.frozen[:, None], self.states, states)
        return rewards, terminated, truncated, infos

    def _get_state(self) -> Arrays:
        return {"states": self.states, "system": np.array(repr(self.system))}

    def _set_state(self, arrays: Arrays) -> None:
        self.states = arrays["states"]

    def _check_state(self, arrays: Arrays) -> None:
        super()._check_state(arrays)
        if str(arrays["system"]) != repr(self.system):
            raise ValueError(f"The state is of {arrays['system']}; expected one of {self.system}.")
