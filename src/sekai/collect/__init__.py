"""Transitions: returns and advantages over rows whose boundaries are known, and the replay of rows."""

from __future__ import annotations

from sekai.collect.replay import ReplayBuffer
from sekai.collect.replay_rows import ReplaySample, Rows
from sekai.collect.returns import VTrace, discounted_returns, gae, lambda_returns, n_step_returns, vtrace

__all__ = [
    "ReplayBuffer",
    "ReplaySample",
    "Rows",
    "VTrace",
    "discounted_returns",
    "gae",
    "lambda_returns",
    "n_step_returns",
    "vtrace",
]
