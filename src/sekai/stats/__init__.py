"""Statistics of episodes."""

from __future__ import annotations

from sekai.stats.episodes import EpisodeStats, InMemoryTracker, StatsTracker

__all__ = ["EpisodeStats", "InMemoryTracker", "StatsTracker"]
