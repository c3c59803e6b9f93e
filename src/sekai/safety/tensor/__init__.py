"""Tensor environments and buffers: observations, actions, margins and batches that stay on one device."""

from sekai.safety.tensor.env import TensorStep, TensorVecEnv, is_tensor_env
from sekai.safety.tensor.native import TensorFromNative
from sekai.safety.tensor.normalize import TensorVecNormalize
from sekai.safety.tensor.replay import TensorReachAvoidReplayBuffer, TensorReplayBuffer, TensorSafetyReplayBuffer
from sekai.safety.tensor.rollouts import TensorReachAvoidRolloutBuffer, TensorSafetyRolloutBuffer
from sekai.safety.tensor.systems import SafetyTensorEnv

__all__ = [
    "SafetyTensorEnv",
    "TensorFromNative",
    "TensorReachAvoidReplayBuffer",
    "TensorReachAvoidRolloutBuffer",
    "TensorReplayBuffer",
    "TensorSafetyReplayBuffer",
    "TensorSafetyRolloutBuffer",
    "TensorStep",
    "TensorVecEnv",
    "TensorVecNormalize",
    "is_tensor_env",
]
