"""Transitions: returns and advantages over rows whose boundaries are known."""

from __future__ import annotations

from sekai.collect.returns import VTrace, discounted_returns, gae, lambda_returns, n_step_returns, vtrace

__all__ = ["VTrace", "discounted_returns", "gae", "lambda_returns", "n_step_returns", "vtrace"]
