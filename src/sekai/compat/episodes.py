"""Episode statistics in the words of gymnasium and Stable-Baselines3."""

from __future__ import annotations

from typing import Any

from sekai.stats import EpisodeStats


def plain_episode(stats: EpisodeStats) -> dict[str, Any]:
    """`{"r": return, "l": length, "t": seconds}`, as both expect it in `info["episode"]`."""
    return {"r": stats.episode_return, "l": stats.episode_length, "t": stats.elapsed_time}


def with_plain_episode(info: dict[str, Any]) -> dict[str, Any]:
    """A copy of an info whose `EpisodeStats`, should it have one, is a plain dict."""
    return {key: plain_episode(value) if isinstance(value, EpisodeStats) else value for key, value in info.items()}
