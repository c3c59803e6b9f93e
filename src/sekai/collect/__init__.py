"""From calls to transitions."""

from __future__ import annotations

from sekai.collect.confidence import bootstrap_interval
from sekai.collect.evaluation import Evaluation, evaluate

__all__ = ["Evaluation", "bootstrap_interval", "evaluate"]
