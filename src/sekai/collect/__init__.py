"""Transitions: returns and advantages over rows whose boundaries are known, replay of rows, and evaluation."""

from __future__ import annotations

from sekai.collect.confidence import bootstrap_interval
from sekai.collect.evaluation import Evaluation, evaluate
from sekai.collect.replay import ReplayBuffer
from sekai.collect.replay_rows import ReplaySample
from sekai.collect.returns import VTrace, discounted_returns, gae, lambda_returns, n_step_returns, vtrace

__all__ = [
    "Evaluation",
    "ReplayBuffer",
    "ReplaySample",
    "VTrace",
    "bootstrap_interval",
    "discounted_returns",
    "evaluate",
    "gae",
    "lambda_returns",
    "n_step_returns",
    "vtrace",
]
