"""`VecActionMaskObservation`: which actions are allowed, in the observation of every slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.spaces import batch_space
from sekai.vector.base import VecEnv
from sekai.vector.infos import Part
from sekai.vector.observing import ends_of
from sekai.vector.results import VecResetResult, VecStepResult
from sekai.vector.wrapper import VecWrapper
from sekai.wrappers.masks import final_mask, flatten_mask, mask_of_info, mask_size, masked_space, with_mask


class VecActionMaskObservation(VecWrapper):
    """Add the mask of allowed actions to the observations, int8 `(N, choices)`.

    A `Dict` observation gains the entry `key`; any other becomes `{"observation": ..., key: masks}`. The masks come
    from the environments' method `action_mask()`, or where there is none from `infos[i][key]`. With the last
    observation of an episode the mask comes from the info, and is all ones where the info has none: nobody acts
    there, and under same_step the environment is in its next episode already.

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
        self.observation_space = masked_space(venv.observation_space, size, key)
        self.batch_observation_space = batch_space(self.observation_space, self.num_envs)
        self._masks = np.ones((self.num_envs, size), np.int8)  # of the latest rows
        try:
            venv.get_attr("action_mask")
            self._calls = True
        except AttributeError:
            self._calls = False

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Add the masks."""
        infos, inner = result.infos, self.venv.observation_space
        ends = ends_of(result) if not result.plain else None
        kept = result.kind == RowKind.FROZEN
        last = np.zeros(self.num_envs, bool)
        first: dict[int, Any] = {}
        if ends is not None:
            last = result.dones & ~kept
            last[ends.in_infos.slots] = False
            finals = ends.in_infos.values
            if len(ends.in_infos.slots):
                pairs = zip(ends.in_infos.slots.tolist(), finals, strict=True)
                shown = [with_mask(inner, final, self._final(infos[slot], slot), self.key) for slot, final in pairs]
                infos.put(Part("final_observation", shown, ends.in_infos.slots))
                first = {slot: infos[slot]["reset_info"] for slot in ends.in_infos.slots.tolist()}
        self._masks = self._current(result, ~(kept | last), first)
        for slot in np.flatnonzero(last).tolist():
            self._masks[slot] = self._final(infos[slot], slot)
        return result.replace(observations=self._with(result.observations), space=self.observation_space)

    def after_reset(self, result: VecResetResult, mask: NDArray[np.bool_]) -> VecResetResult:
        """Add the masks."""
        self._masks = self._current(result, mask, {})
        return result.replace(observations=self._with(result.observations))

    def _current(self, result: VecStepResult | VecResetResult, slots: NDArray[np.bool_], first: dict[int, Any]) -> Any:
        """The latest masks, those of some slots read anew; `first` has the reset infos of a call's new episodes."""
        space, masks = self.action_space, self._masks.copy()
        given = self.venv.call("action_mask") if self._calls and slots.any() else None
        for slot in np.flatnonzero(slots).tolist():
            whose = f"sub-env {slot}"
            if given is not None:
                masks[slot] = flatten_mask(space, given[slot], whose)
            else:
                masks[slot] = mask_of_info(space, first.get(slot, result.infos[slot]), self.key, whose)
        return masks

    def _final(self, info: Any, slot: int) -> Any:
        return final_mask(self.action_space, info, self.key, f"sub-env {slot}")

    def _with(self, observations: Any) -> dict[str, Any]:
        return with_mask(self.venv.observation_space, observations, self._masks.copy(), self.key)
