"""Checks of environments, and environments whose every observation says where it comes from."""

from __future__ import annotations

from sekai.testing.check import check_env
from sekai.testing.check_vec import check_vec_env
from sekai.testing.coded import CodedEnv, CodedVecEnv
from sekai.testing.problems import Problem

__all__ = ["CodedEnv", "CodedVecEnv", "Problem", "check_env", "check_vec_env"]
