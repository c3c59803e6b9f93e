"""What `step` and `reset` of a vector environment return.

Shapes: `N` sub-environments. Both classes unpack, index and have the length of gymnasium's vector tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.spaces import read_row
from sekai.vector.infos import Infos


class VecStepResult:
    """One row per sub-environment. Unpacks as `observations, rewards, terminated, truncated, infos`.

    Attributes:
        observations: batch of observations, an array `(N, *shape)` or a dict or tuple of arrays.
        rewards: float64 `(N,)`.
        terminated: bool `(N,)`.
        truncated: bool `(N,)`.
        infos: one dict per sub-environment, see `Infos`.
        kind: int8 `(N,)` of `RowKind`: what each row is.
        ended: bool `(N,)`: slots whose episode ended in this very call (a frozen slot ended in an earlier one).
        space: observation space of one sub-environment, which says how `observations` are batched.
    """

    __slots__ = (
        "_begun",
        "_plain",
        "ended",
        "infos",
        "kind",
        "observations",
        "rewards",
        "space",
        "terminated",
        "truncated",
    )

    def __init__(
        self,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Infos,
        *,
        kind: NDArray[np.int8],
        ended: NDArray[np.bool_],
        space: gymnasium.Space[Any],
        plain: bool | None = None,
    ) -> None:
        self.observations = observations
        self.rewards = rewards
        self.terminated = terminated
        self.truncated = truncated
        self.infos = infos
        self.kind = kind
        self.ended = ended
        self.space = space
        self._plain = plain  # None until somebody asks, where the backend does not know
        self._begun: NDArray[np.bool_] | None = None

    @property
    def plain(self) -> bool:
        """Whether every row is a plain step: nothing ended, waits, began or was lost."""
        if self._plain is None:
            self._plain = not self.kind.any()
        return self._plain

    @property
    def begun(self) -> NDArray[np.bool_]:
        """Slots that ended in this call and whose next episode began in it too, bool `(N,)`.

        Their row is the first observation of that episode, and the last one of the other stands in the info.
        """
        if self._begun is None:
            begun = np.zeros(len(self.ended), bool)
            if not self.plain:
                begun[self.infos.part("reset_info", np.flatnonzero(self.ended)).slots] = True
            self._begun = begun
        return self._begun

    @property
    def dones(self) -> NDArray[np.bool_]:
        """`terminated | truncated`, bool `(N,)`."""
        return self.terminated | self.truncated

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Rows that are transitions: the action given was executed. Bool `(N,)`."""
        valid: NDArray[np.bool_] = self.kind <= RowKind.TRUNCATED
        return valid

    def final_observation(self, slot: int) -> Any:
        """The last observation of the episode that ended in `slot` in this call, in every autoreset mode.

        Raises:
            LookupError: no episode ended there in this call.
        """
        info = self._ended_info(slot)
        if "reset_info" in info:  # the slot was reset in the same call
            return info["final_observation"]
        return read_row(self.space, self.observations, slot)

    def final_info(self, slot: int) -> dict[str, Any]:
        """The info of the step that ended the episode in `slot` in this call, in every autoreset mode.

        Raises:
            LookupError: no episode ended there in this call.
        """
        info = self._ended_info(slot)
        if "reset_info" not in info:
            return info
        # what wrappers have added to the terminal step's own info stands beside it
        added = {key: value for key, value in info.items() if key not in _OF_A_RESET}
        return {**added, **info["final_info"]}

    def step_info(self, slot: int) -> dict[str, Any]:
        """The info of the step that the row of `slot` shows, in every autoreset mode: that of its last step where an
        episode ended in this call, whatever was reset in it."""
        return self.final_info(slot) if self.ended[slot] else self.infos[slot]

    def _ended_info(self, slot: int) -> dict[str, Any]:
        if not self.ended[slot]:
            ended = np.flatnonzero(self.ended).tolist()
            raise LookupError(
                f"No episode of sub-env {slot} ended in this call (ended: {ended}); look at `ended` first."
            )
        return self.infos[slot]

    def replace(self, **changes: Any) -> VecStepResult:
        """A copy with some fields changed; the others are shared."""
        twin = VecStepResult.__new__(VecStepResult)  # a call to the constructor takes as long as all the rest
        twin.observations, twin.rewards, twin.infos = self.observations, self.rewards, self.infos
        twin.terminated, twin.truncated = self.terminated, self.truncated
        twin.kind, twin.ended, twin.space = self.kind, self.ended, self.space
        twin._plain = None if "kind" in changes else self._plain
        keeps_begun = "kind" not in changes and "ended" not in changes and "infos" not in changes
        twin._begun = self._begun if keeps_begun else None
        for name, value in changes.items():
            if name not in _FIELDS:
                unknown = sorted(changes.keys() - _FIELDS)
                raise TypeError(f"VecStepResult has no field {unknown}; it has {sorted(_FIELDS)}.")
            setattr(twin, name, value)
        return twin

    def _tuple(self) -> tuple[Any, ...]:
        return self.observations, self.rewards, self.terminated, self.truncated, self.infos

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tuple())

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: Any) -> Any:
        return self._tuple()[index]

    def __repr__(self) -> str:
        fields = ("observations", "rewards", "terminated", "truncated", "infos", "kind")
        return f"VecStepResult({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


_FIELDS = frozenset(name for name in VecStepResult.__slots__ if not name.startswith("_"))


#: what the info of a slot holds because its next episode began in the same call
_OF_A_RESET = ("final_observation", "final_info", "reset_info")


class VecResetResult:
    """First observations. Unpacks as `observations, infos`.

    Attributes:
        observations: batch of observations; slots outside a mask keep their latest row.
        infos: one dict per sub-environment; `{}` for slots outside a mask.
        dones: bool `(N,)`: slots that have ended and were not reset by this call; all False after a full reset.
    """

    __slots__ = ("dones", "infos", "observations")

    def __init__(self, observations: Any, infos: Infos, dones: NDArray[np.bool_]) -> None:
        self.observations = observations
        self.infos = infos
        self.dones = dones

    def replace(self, **changes: Any) -> VecResetResult:
        """A copy with some fields changed; the others are shared."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        unknown = changes.keys() - fields.keys()
        if unknown:
            raise TypeError(f"VecResetResult has no field {sorted(unknown)}; it has {sorted(fields)}.")
        return VecResetResult(**{**fields, **changes})

    def __iter__(self) -> Iterator[Any]:
        return iter((self.observations, self.infos))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        return (self.observations, self.infos)[index]

    def __repr__(self) -> str:
        return f"VecResetResult(observations={self.observations!r}, infos={self.infos!r}, dones={self.dones!r})"
