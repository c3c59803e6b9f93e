"""`TensorVecNormalize`: observations to mean 0 and variance 1, on the device. Margins are never touched."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from gymnasium import spaces

from sekai.safety.arrays import Tensor
from sekai.safety.tensor.env import TensorStep, TensorVecEnv
from sekai.safety.tensor.statistics import RunningMoments


class TensorVecNormalize(TensorVecEnv):
    """A `TensorVecEnv` whose observations are normalised with running statistics.

    A safety learner that is given one takes the statistics into its policy, as with `normalize_observations=True`, so
    that they are saved with it; see `hand_over`.

    Args:
        env: with a `Box` of floats as observation space.
        clip: normalised observations stay within `[-clip, clip]`.

    Attributes:
        training: whether statistics go on; set it False to freeze them. To read it waits for the device.
        handed_over: whether observations are passed on as they are, see `hand_over`.

    Raises:
        TypeError: another observation space, or no `TensorVecEnv`.
    """

    def __init__(self, env: TensorVecEnv, *, clip: float = 10.0) -> None:
        if not isinstance(env, TensorVecEnv):
            raise TypeError(f"TensorVecNormalize wraps a TensorVecEnv; given {type(env).__name__}.")
        space = env.observation_space
        if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
            raise TypeError(f"TensorVecNormalize needs a Box of floats as observation space; given {space}.")
        self.env, self.handed_over = env, False
        self.provides_l = env.provides_l
        box = spaces.Box(-clip, clip, space.shape)
        super().__init__(env.num_envs, box, env.action_space, device=env.device)
        self._statistics = RunningMoments(space.shape, clip=clip, device=self.device)

    @property
    def training(self) -> bool:
        """Whether statistics go on."""
        return bool(self._statistics.moving)

    @training.setter
    def training(self, training: bool) -> None:
        self._statistics.moving.fill_(training)

    def hand_over(self, statistics: RunningMoments | None = None) -> RunningMoments:
        """Pass observations on as they are from now on: a policy that has the statistics normalises them.

        Args:
            statistics: those of the policy, which take the place of the own ones.

        Returns:
            The statistics, which this layer goes on to save, load and freeze; a copy, where another policy has them.
        """
        if statistics is not None:
            self._statistics = statistics
        elif self.handed_over:
            self._statistics = deepcopy(self._statistics)
        self.handed_over = True
        self.observation_space = self.env.observation_space
        return self._statistics

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not there yet
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset_tensor(self) -> Tensor:
        """Begin an episode in every slot."""
        return self._seen(self.env.reset_tensor())

    def step_tensor(self, actions: Tensor) -> TensorStep:
        """Step; only observations are changed, the final ones with the statistics of this step."""
        step = TensorStep(*self.env.step_tensor(actions))
        if self.handed_over:
            return step
        obs = self._seen(step.obs)
        return step._replace(obs=obs, final_obs=None if step.final_obs is None else self.normalize(step.final_obs))

    def normalize(self, observations: Tensor) -> Tensor:
        """Observations `(..., D)` to mean 0 and variance 1; the statistics stay as they are."""
        normalised: Tensor = self._statistics(observations)
        return normalised

    def _seen(self, observations: Tensor) -> Tensor:
        if self.handed_over:
            return observations
        self._statistics.update(observations)
        return self.normalize(observations)

    def state_dict(self) -> dict[str, Tensor]:
        """The statistics."""
        return {name: buffer.clone() for name, buffer in self._statistics.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: keys or shapes that do not fit; nothing is taken over.
        """
        own = self.state_dict()
        if state.keys() != own.keys() or any(state[key].shape != own[key].shape for key in own):
            given = {key: tuple(value.shape) for key, value in state.items()}
            wanted = {key: tuple(value.shape) for key, value in own.items()}
            raise ValueError(f"The state has {given}; expected {wanted}.")
        self._statistics.load_state_dict(state)

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()

    def save(self, path: Any) -> None:
        """Write the statistics to a file."""
        torch.save(self.state_dict(), path)

    def load(self, path: Any) -> None:
        """Read statistics from a file that `save` wrote; no code in it is executed."""
        self.load_state_dict(torch.load(path, map_location=self.device, weights_only=True))
