"""Transitions that can be trusted: from calls of a vector environment to fragments, sequences and batches."""

from __future__ import annotations

from sekai.collect.collector import Collector
from sekai.collect.counters import Counters
from sekai.collect.fragment import Fragment
from sekai.collect.policy import Decision, Policy, ValuedPolicy, as_policy
from sekai.collect.sequences import SequenceAssembler, Sequences, pad, unpad
from sekai.collect.sidetable import SideTable

__all__ = [
    "Collector",
    "Counters",
    "Decision",
    "Fragment",
    "Policy",
    "SequenceAssembler",
    "Sequences",
    "SideTable",
    "ValuedPolicy",
    "as_policy",
    "pad",
    "unpad",
]
