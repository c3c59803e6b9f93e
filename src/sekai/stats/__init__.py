"""Statistics of episodes, and running statistics."""

from __future__ import annotations

from sekai.stats.episodes import EpisodeStats
from sekai.stats.running import RunningStats, StatsTree
from sekai.stats.trackers import InMemoryTracker, LoggingTracker, StatsTracker

__all__ = ["EpisodeStats", "InMemoryTracker", "LoggingTracker", "RunningStats", "StatsTracker", "StatsTree"]
