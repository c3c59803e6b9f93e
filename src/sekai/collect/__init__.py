"""Transitions that can be trusted: from calls of a vector environment to fragments, sequences, returns and replay."""

from __future__ import annotations

from sekai.collect.collector import Collector
from sekai.collect.confidence import bootstrap_interval
from sekai.collect.counters import Counters
from sekai.collect.evaluation import Evaluation, evaluate
from sekai.collect.fragment import Fragment
from sekai.collect.policy import Decision, Policy, ValuedPolicy, as_policy
from sekai.collect.replay import ReplayBuffer
from sekai.collect.replay_rows import ReplaySample
from sekai.collect.returns import VTrace, discounted_returns, gae, lambda_returns, n_step_returns, vtrace
from sekai.collect.sequences import SequenceAssembler, Sequences, pad, unpad
from sekai.collect.sidetable import SideTable

__all__ = [
    "Collector",
    "Counters",
    "Decision",
    "Evaluation",
    "Fragment",
    "Policy",
    "ReplayBuffer",
    "ReplaySample",
    "SequenceAssembler",
    "Sequences",
    "SideTable",
    "VTrace",
    "ValuedPolicy",
    "as_policy",
    "bootstrap_interval",
    "discounted_returns",
    "evaluate",
    "gae",
    "lambda_returns",
    "n_step_returns",
    "pad",
    "unpad",
    "vtrace",
]
