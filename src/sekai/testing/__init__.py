"""Environments whose every observation says where it comes from, for tests of what runs them."""

from __future__ import annotations

from sekai.testing.coded import CodedEnv, CodedVecEnv

__all__ = ["CodedEnv", "CodedVecEnv"]
