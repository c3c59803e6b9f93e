"""Any system as a single environment and as a native vector environment, under the contract of safety environments."""

from sekai.safety.envs.native import SafetyVecEnv
from sekai.safety.envs.single import SafetyEnv

__all__ = ["SafetyEnv", "SafetyVecEnv"]
