"""Rows from gymnasium's own vector environments, in their three modes.

Their infos are columns `infos[name]` with presence masks `infos["_" + name]`. An entry whose mask is False was never
filled (it is None, or zero) and is not read. Under same-step the info of a terminal step stands in
`infos["final_info"]`, with masks of its own, and the reset's takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from sekai.collect.rows import Indices, Rows, Source, as_batch, missing_info, restart_slots
from sekai.core.slots import AutoresetMode, Call, Phase, RowKind, calls_of, kinds_of, phases_after
from sekai.errors import InvalidObservation, ResetRequired


class GymnasiumRows(Rows):
    """Rows whose infos are columns with presence masks.

    Attributes:
        ended: under same-step, bool `(N,)`, slots whose terminal info stands in `final_info`.
    """

    ended: NDArray[np.bool_] | None = None

    def info(self, name: str, places: Indices) -> NDArray[Any]:
        """One info column of some slots."""
        return _info_of(self._infos, name, places, self.ended)


class GymnasiumSource(Source):
    """A `gymnasium.vector.VectorEnv`.

    Raises:
        ValueError: its metadata do not say in which autoreset mode it is.
    """

    def __init__(self, vec: VectorEnv[Any, Any, Any]) -> None:
        if "autoreset_mode" not in vec.metadata:
            raise ValueError(
                f"{vec} does not say how it resets: set metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode."
            )
        self.num_envs = vec.num_envs
        self.observation_space, self.action_space = vec.single_observation_space, vec.single_action_space
        self._vec = vec
        self._mode = AutoresetMode.parse(vec.metadata["autoreset_mode"])
        self._phase = np.full(self.num_envs, Phase.NEW, np.int8)
        self._lost = np.zeros(self.num_envs, bool)

    def reset(self, seed: Any, options: Any) -> Any:
        """Reset every slot."""
        self._phase[:] = Phase.NEW  # until it has succeeded
        observations, _ = self._vec.reset(seed=seed, options=options)
        self._phase[:] = Phase.LIVE
        self._lost[:] = False
        return observations

    def step(self, actions: Any, into: Any = None) -> Rows:
        """Step; under DISABLED reset what has ended, through `options["reset_mask"]`. Nothing is written to `into`.

        Raises:
            ResetRequired: an earlier call failed. What it moved is not known, as gymnasium keeps no record of it.
        """
        if (self._phase == Phase.NEW).any():
            raise ResetRequired(
                f"{self._vec} needs a reset: call collector.reset(). A call failed or none came before, and gymnasium "
                "does not say which sub-envs a failed call has moved."
            )
        phase, self._phase = self._phase, np.full(self.num_envs, Phase.NEW, np.int8)
        observations, rewards, terminated, truncated, infos = self._vec.step(actions)
        calls = calls_of(phase)
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        ended = (terminated | truncated) & (calls == Call.STEP)
        kind = kinds_of(calls, terminated, truncated, self._lost)
        rows = GymnasiumRows(observations, rewards, terminated, truncated, kind, infos)
        if self._mode is AutoresetMode.SAME_STEP:
            rows.ended = ended
        phase = phases_after(calls, ended, self._mode)
        if kind.any():
            self._sort(rows, ended, infos)
            phase[phase == Phase.FROZEN] = Phase.LIVE  # they have just been reset
        self._lost = np.zeros(self.num_envs, bool)
        self._phase = phase
        return rows

    def _sort(self, rows: Rows, ended: NDArray[np.bool_], infos: Mapping[str, Any]) -> None:
        rows.plain = False
        rows.starts = (rows.kind == RowKind.RESET) | (rows.kind == RowKind.LOST)
        if self._mode is AutoresetMode.NEXT_STEP:
            rows.starts &= ~ended  # a lost row may have been an end
        elif ended.any() and self._mode is AutoresetMode.DISABLED:
            restart_slots(
                rows,
                self.observation_space,
                ended,
                lambda mask: self._vec.reset(options={"reset_mask": mask.copy()})[0],
            )
        elif ended.any():
            slots = np.flatnonzero(ended & (rows.kind != RowKind.LOST))
            rows.finals = [(slots, as_batch(self.observation_space, list(_finals_of(infos, slots))))]
            rows.starts |= ended

    def lose(self, rows: Rows | None) -> None:
        """Make the next rows LOST."""
        self._lost[:] = True


def _finals_of(infos: Mapping[str, Any], slots: Indices) -> Any:
    """The final observations of these slots, none of which may be missing."""
    values, present = _column(infos, "final_obs", len(slots))
    for slot in slots.tolist():
        if values is None or not present[slot]:
            raise InvalidObservation(
                f"The episode of sub-env {slot} ended in same-step mode, and infos['final_obs'] has no entry for it."
            )
        yield values[slot]


def _info_of(infos: Mapping[str, Any], name: str, slots: Indices, ended: NDArray[np.bool_] | None) -> NDArray[Any]:
    """One column of some slots; of those of `ended` it is read from the infos of their terminal step."""
    values, present = _column(infos, name, 1 + int(slots.max(initial=0)))
    if ended is None or not ended[slots].any():
        _require(name, slots, values, present, infos)
        assert values is not None
        return np.asarray(values)[slots]
    finals = infos.get("final_info", {})
    last, last_present = _column(finals, name, len(ended))
    own, over = slots[~ended[slots]], slots[ended[slots]]
    _require(name, over, last, last_present, finals)
    _require(name, own, values, present, infos)
    either = last if values is None else values
    assert either is not None and last is not None
    column = np.zeros((len(ended), *np.shape(either)[1:]), np.asarray(either).dtype)
    if len(own):
        column[own] = np.asarray(values)[own]
    column[over] = np.asarray(last)[over]
    return column[slots]


def _column(infos: Mapping[str, Any], name: str, size: int) -> tuple[Any, NDArray[np.bool_]]:
    """A column and its presence mask; without a mask every entry counts, as in environments that fill arrays."""
    if name not in infos:
        return None, np.zeros(size, bool)
    values = infos[name]
    return values, np.asarray(infos.get(f"_{name}", np.ones(len(values), bool)))


def _require(name: str, slots: Indices, values: Any, present: NDArray[np.bool_], infos: Mapping[str, Any]) -> None:
    for slot in slots.tolist():
        if values is None or not present[slot]:
            there = [key for key in infos if not key.startswith("_")]
            raise missing_info(name, slot, [key for key in there if np.any(infos.get(f"_{key}", True))])
