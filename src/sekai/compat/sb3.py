"""The only module that imports Stable-Baselines3: its `VecEnv`, over a sekai vector environment."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv as Sb3Base

from sekai.compat.checks import refuse_lost_rows, refuse_waiting_rows
from sekai.compat.episodes import with_plain_episode
from sekai.core.snapshot import snapshot
from sekai.errors import VecEnvBusy
from sekai.seeding import slot_seeds
from sekai.vector import VecEnv, VecStepResult
from sekai.vector.arrays import ArrayVecEnv

_NOTHING = object()
_RECORDERS = {"RecordEpisodeStatistics", "VecRecordEpisodeStatistics"}


class Sb3VecEnv(Sb3Base):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """A Stable-Baselines3 `VecEnv` over a sekai one in same_step mode; made by `to_sb3`.

    Args:
        vec: the vector environment.
        action_space: of one sub-environment, as SB3 is to see it.

    Attributes:
        vec: the vector environment.
        reset_infos: the info of the reset that began the episode of each slot.
    """

    def __init__(self, vec: VecEnv, action_space: gymnasium.Space[Any]) -> None:
        self.vec = vec
        self._actions: Any = _NOTHING
        self._seed: int | None = None
        super().__init__(vec.num_envs, vec.observation_space, action_space)

    def reset(self) -> Any:
        """Start new episodes with what `seed` and `set_options` were given; a step under way is dropped."""
        self._actions = _NOTHING
        options = [entry or None for entry in self._options]
        first = self.vec.reset(seed=self._seed, options=options)
        self.reset_infos = list(first.infos)
        self._seed = None
        self._reset_seeds()
        self._reset_options()
        return first.observations

    def step_async(self, actions: Any) -> None:
        """Take the actions of the next step; it runs in `step_wait`.

        Raises:
            VecEnvBusy: the last step has not been waited for.
        """
        if self._actions is not _NOTHING:
            raise VecEnvBusy("step_async() was called twice: call step_wait() in between, or reset().")
        self._actions = snapshot(actions)

    def step_wait(self) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step, and return `observations, rewards, dones, infos`.

        Raises:
            RuntimeError: no actions were given.
            ResetRequired: rows were lost in an earlier call that failed.
            RuntimeError: agents of one environment have not ended together; see `from_pettingzoo`.
        """
        actions, self._actions = self._actions, _NOTHING
        if actions is _NOTHING:
            raise RuntimeError("step_wait() was called without step_async(actions): call that first.")
        refuse_lost_rows(self.vec, "Stable-Baselines3")
        result = self.vec.step(actions)
        refuse_waiting_rows(self.vec, result, "Stable-Baselines3")
        infos = self._infos(result)
        # SB3 adds to the rewards it is given, where it bootstraps
        return result.observations, result.rewards.copy(), result.dones, infos

    def _infos(self, result: VecStepResult) -> list[dict[str, Any]]:
        """One dict per slot, with the keys that SB3 reads."""
        infos = [{**info, "TimeLimit.truncated": False} for info in result.infos]
        for slot in np.flatnonzero(result.ended).tolist():
            infos[slot] = {
                **with_plain_episode(result.final_info(slot)),
                "TimeLimit.truncated": bool(result.truncated[slot] and not result.terminated[slot]),
                "terminal_observation": result.final_observation(slot),
            }
            self.reset_infos[slot] = result.infos[slot]["reset_info"]
        return infos

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset, as `vec.reset(seed=seed)` does; nothing is stepped or reset.

        Returns:
            The seed of each sub-environment.
        """
        drawn = np.random.SeedSequence().generate_state(1)[0] if seed is None else seed
        self._seed = int(drawn)
        self._seeds = [int(entry) for entry in slot_seeds(self._seed, self.num_envs)]  # type: ignore[arg-type]  # ints
        return self._seeds

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of some sub-environments, by default of all."""
        values = self.vec.get_attr(attr_name)
        return [values[slot] for slot in self._slots(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an existing attribute of some sub-environments, by default of all, to one value.

        Raises:
            AttributeError: no layer has it.
            ValueError: some of the slots of a native environment, where all share one value.
        """
        slots = self._slots(indices)
        if set(slots) == set(range(self.num_envs)):
            self.vec.set_attr(attr_name, [value] * self.num_envs if isinstance(value, list) else value)
            return
        base = self.vec.unwrapped
        if isinstance(base, ArrayVecEnv):
            held = getattr(base, attr_name, None)
            if not isinstance(held, np.ndarray) or held.shape[:1] != (self.num_envs,):
                raise ValueError(
                    f"The sub-envs of {base} share one {attr_name!r}; set it for all, without indices={slots}."
                )
        values = self.vec.get_attr(attr_name)
        for slot in slots:
            values[slot] = value
        self.vec.set_attr(attr_name, values)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of some sub-environments, by default of all.

        Raises:
            ValueError: some of the slots of a native environment, whose methods act on all at once.
        """
        slots = self._slots(indices)
        if slots == list(range(self.num_envs)):
            return self.vec.call(method_name, *method_args, **method_kwargs)
        base: Any = self.vec.unwrapped
        if not hasattr(base, "call_slots"):
            raise ValueError(
                f"{base} has no sub-env objects, and {method_name}() acts on all slots at once: call it without "
                f"indices={slots}."
            )
        results: list[Any] = base.call_slots(slots, method_name, *method_args, **method_kwargs)
        return results

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Whether a layer of the first sub-environment has the name of this class, for each slot asked.

        SB3's `Monitor` stands for episode statistics, and counts as there where they are recorded.
        """
        names = set(self.vec.layers())
        wanted = {wrapper_class.__name__} | (_RECORDERS if wrapper_class is Monitor else set())
        return [bool(names & wanted)] * len(self._slots(indices))

    def get_images(self) -> list[Any]:
        """One picture of each sub-environment; None where they do not render to arrays."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"render_mode is {self.render_mode!r}; pictures need 'rgb_array'.", stacklevel=2)
            return [None] * self.num_envs
        return self.vec.render()

    def close(self) -> None:
        """Close the vector environment."""
        self.vec.close()

    def _slots(self, indices: int | Iterable[int] | None) -> list[int]:
        """The slots meant, each within range."""
        given = self._get_indices(int(indices) if isinstance(indices, np.integer) else indices)
        return [range(self.num_envs)[int(slot)] for slot in given]
