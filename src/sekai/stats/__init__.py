"""Statistics of episodes, and running statistics."""

from __future__ import annotations

from sekai.stats.episodes import EpisodeStats
from sekai.stats.running import RunningStats
from sekai.stats.trackers import InMemoryTracker, LoggingTracker, StatsTracker
from sekai.stats.tree import StatsTree

__all__ = ["EpisodeStats", "InMemoryTracker", "LoggingTracker", "RunningStats", "StatsTracker", "StatsTree"]
