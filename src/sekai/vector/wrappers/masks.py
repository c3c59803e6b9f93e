"""`VecActionMaskObservation`: which actions are allowed, in the observation of every slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.errors import InvalidObservation
from sekai.vector.arrays import ArrayVecEnv
from sekai.vector.base import VecEnv
from sekai.vector.infos import Infos, Part
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper
from sekai.wrappers.masks import Mask, final_mask, has_method, mask_of_info, mask_size, masked_space, with_mask


class VecActionMaskObservation(VecWrapper):
    """Add the mask of allowed actions to the observations, int8 `(N, choices)`.

    A `Dict` observation gains the entry `key`; any other becomes `{"observation": ..., key: masks}`. The masks come
    from the method `action_mask()` of a native environment, which returns `(N, choices)`, and elsewhere from
    `infos[i][key]`; environments that only have the method are wrapped one by one, in `ActionMaskObservation`. With
    the last observation of an episode the mask comes from the info, and is all ones where the info has none: nobody
    acts there, and under same_step the slot is in its next episode already. So it is where a partial reset shows the
    row of another slot that moved in a call that failed: its info is not to be had.

    Args:
        venv: a vector environment with discrete actions.
        key: name of the mask in the observation, and in the infos.

    Raises:
        TypeError: an action space that has no mask.
        ValueError: the observation has an entry `key` already.
    """

    def __init__(self, venv: VecEnv, *, key: str = "action_mask") -> None:
        super().__init__(venv)
        self.key = key
        size = mask_size(venv.action_space)
        self.set_observation_space(masked_space(venv.observation_space, size, key))
        self._masks = np.ones((self.num_envs, size), np.int8)  # of the latest rows; replaced, never written to
        base = venv.unwrapped
        self._native: Any = base if isinstance(base, ArrayVecEnv) and has_method(base) else None

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Add the masks."""
        infos, begun, frozen = result.infos, result.begun, result.kind == RowKind.FROZEN
        last = result.dones & ~begun & ~frozen
        masks = self._read(infos, ~(last | frozen), begun)
        for slot in np.flatnonzero(last).tolist():
            masks[slot] = self._final(infos, slot)
        if begun.any():
            finals = infos.part("final_observation", np.flatnonzero(begun))
            pairs = zip(finals.slots.tolist(), finals.values, strict=True)
            inner = self.venv.observation_space
            shown = [with_mask(inner, final, self._final(infos, slot), self.key) for slot, final in pairs]
            infos.put(Part("final_observation", shown, finals.slots))
        self._masks = masks
        return result.replace(observations=self._with(result.observations), space=self.observation_space)

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Add the masks."""
        unseen = self.venv.lost_rows & ~mask  # they have moved, and only a native environment can be asked where to
        if self._native is None:
            self._masks = np.where(unseen[:, None], np.int8(1), self._masks)
        read = mask if self._native is None else mask | (unseen & ~result.dones)
        self._masks = self._read(result.infos, read, np.zeros(self.num_envs, bool))
        return result.replace(observations=self._with(result.observations))

    def _read(self, infos: Infos, slots: NDArray[np.bool_], begun: NDArray[np.bool_]) -> Mask:
        """The latest masks, those of some slots read anew; a slot that has begun has its first one in `reset_info`."""
        masks = self._masks.copy()
        if not slots.any():
            return masks
        if self._native is not None:
            given = np.asarray(self._native.action_mask())
            if given.shape != masks.shape or not np.isin(given, (0, 1)).all():
                raise InvalidObservation(
                    f"{self._native}.action_mask() returned shape {given.shape}; expected {masks.shape} of 0 and 1."
                )
            masks[slots] = given[slots]
            return masks
        for slot in np.flatnonzero(slots).tolist():
            info = infos[slot]["reset_info"] if begun[slot] else infos[slot]
            masks[slot] = mask_of_info(self.action_space, info, self.key, f"sub-env {slot}")
        return masks

    def _final(self, infos: Infos, slot: int) -> Mask:
        return final_mask(self.action_space, infos[slot], self.key, f"sub-env {slot}")

    def _with(self, observations: Any) -> dict[str, Any]:
        return with_mask(self.venv.observation_space, observations, self._masks.copy(), self.key)
