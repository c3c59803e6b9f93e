"""What is kept of a finished episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStats:
    """One finished episode.

    `episode["r"]`, `["l"]` and `["t"]` are its return, length and time, as gymnasium and Stable-Baselines3 read them
    from `info["episode"]`.
    """

    episode_return: float
    """Sum of its rewards, undiscounted."""
    episode_length: int
    """Number of actions executed."""
    terminated: bool
    """It ended within the task."""
    truncated: bool
    """It was cut from outside the task."""
    elapsed_time: float
    """Seconds from its first row to its last, by a monotonic clock."""
    discounted_return: float | None = None
    """Sum of `gamma**t * reward_t` with `t` from 0; None where the recorder was given no `gamma`."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Where it was seen, e.g. `{"env_index": 3}`."""

    def __getitem__(self, key: str) -> float:
        return float(getattr(self, _SHORT[key]))

    def __len__(self) -> int:
        return len(_SHORT)


_SHORT = {"r": "episode_return", "l": "episode_length", "t": "elapsed_time"}
