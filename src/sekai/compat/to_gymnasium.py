"""`to_gymnasium_vector`: a sekai vector environment as gymnasium's own classes and wrappers expect one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.compat.checks import check_vec, refuse_lost_rows, refuse_waiting_rows
from sekai.compat.episodes import with_plain_episode
from sekai.compat.vector_infos import to_columns
from sekai.core import AutoresetMode
from sekai.errors import ResetRequired
from sekai.vector import VecEnv, VecStepResult

_OF_A_RESET = ("final_observation", "final_info", "reset_info")


def to_gymnasium_vector(vec: VecEnv) -> ToGymnasiumVector:
    """A `gymnasium.vector.VectorEnv` over a sekai vector environment, in its autoreset mode.

    Infos are a dict of arrays with presence masks. In same_step mode the keys of a slot that ended are those of the
    reset, beside `final_obs` and `final_info`, as gymnasium has it; what vector wrappers have added, such as
    `episode`, stands there too. In disabled mode slots are reset with `reset(options={"reset_mask": mask})`.

    Args:
        vec: the vector environment.

    Raises:
        TypeError: no `sekai.VecEnv`.
        ValueError: sub-environments that reset themselves (`AutoReset`), in another mode than same_step.

        >>> env = to_gymnasium_vector(sekai.make_vec("CartPole-v1", num_envs=2))
        >>> env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    """
    vec = check_vec(vec, "to_gymnasium_vector")
    if vec.autoreset is not AutoresetMode.SAME_STEP and "AutoReset" in vec.layers():
        raise ValueError(
            f"The sub-envs of {vec} reset themselves, and autoreset is {vec.autoreset.value!r}: leave out AutoReset, "
            "or use autoreset='same_step'."
        )
    return ToGymnasiumVector(vec)


class ToGymnasiumVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Made by `to_gymnasium_vector`.

    Attributes:
        vec: the vector environment.
    """

    def __init__(self, vec: VecEnv) -> None:
        self.vec = vec
        self.num_envs = vec.num_envs
        self.single_observation_space, self.single_action_space = vec.observation_space, vec.action_space
        self.observation_space, self.action_space = vec.batch_observation_space, vec.batch_action_space
        self.metadata = {**vec.metadata, "autoreset_mode": gymnasium.vector.AutoresetMode[vec.autoreset.name]}
        self.render_mode, self.spec = vec.render_mode, vec.spec
        self._over: NDArray[np.bool_] = np.zeros(vec.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes: of all slots, or of those in `options["reset_mask"]`, bool `(num_envs,)`.

        Seeds are spread as `VecEnv.reset` does, never `seed + i`. `options` is not changed.
        """
        if isinstance(seed, int):
            super().reset(seed=seed)
        given = dict(options or {})
        mask = given.pop("reset_mask", None)
        result = self.vec.reset(seed=seed, options=given or None, mask=mask)
        self._over = result.dones
        return result.observations, to_columns(list(result.infos))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every slot.

        Raises:
            ResetRequired: in disabled mode, an episode has ended and its slot was not reset; or rows were lost in an
                earlier call that failed.
            RuntimeError: agents of one environment have not ended together; see `from_pettingzoo`.
        """
        refuse_lost_rows(self.vec, "gymnasium")
        if self.vec.autoreset is AutoresetMode.DISABLED and self._over.any():
            raise ResetRequired(
                f"The episodes of sub-envs {np.flatnonzero(self._over).tolist()} have ended and autoreset is disabled: "
                "call reset(options={'reset_mask': mask}) first."
            )
        result = self.vec.step(actions)
        refuse_waiting_rows(self.vec, result, "gymnasium")
        self._over = result.dones
        return result.observations, result.rewards, result.terminated, result.truncated, _infos(result)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every sub-environment, or read the attribute where it is not callable."""
        return tuple(self.vec.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every sub-environment."""
        return tuple(self.vec.get_attr(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an existing attribute: one value for every slot, or a list or tuple with one per slot."""
        self.vec.set_attr(name, list(values) if isinstance(values, tuple) else values)

    def render(self) -> tuple[Any, ...]:
        """One frame per sub-environment."""
        return tuple(self.vec.render())

    def close_extras(self, **kwargs: Any) -> None:
        """Close the vector environment."""
        self.vec.close()


def _infos(result: VecStepResult) -> dict[str, Any]:
    """The infos of a step in gymnasium's form."""
    if result.plain:
        return to_columns(result.infos)
    rows = [with_plain_episode(info) for info in result.infos]
    begun = np.flatnonzero(result.begun)
    finals: list[dict[str, Any]] = [{} for _ in rows]
    last = np.full(len(rows), None, object)
    for slot in begun.tolist():
        row = rows[slot]
        final_info = finals[slot] = with_plain_episode(row["final_info"])
        last[slot] = row["final_observation"]
        added = {key: value for key, value in row.items() if key not in _OF_A_RESET and key not in final_info}
        rows[slot] = {**row["reset_info"], **added}
    columns = to_columns(rows)
    if len(begun):
        columns.update(final_obs=last, _final_obs=result.begun.copy())
        columns.update(final_info=to_columns(finals), _final_info=result.begun.copy())
    return columns
