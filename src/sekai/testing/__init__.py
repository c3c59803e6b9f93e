"""Checks of environments, environments whose every observation says where it comes from, and a task for memory."""

from __future__ import annotations

from sekai.testing.check import check_env
from sekai.testing.check_vec import check_vec_env
from sekai.testing.coded import CodedEnv, CodedVecEnv
from sekai.testing.memory import MemoryCorridor
from sekai.testing.problems import Problem

__all__ = ["CodedEnv", "CodedVecEnv", "MemoryCorridor", "Problem", "check_env", "check_vec_env"]
