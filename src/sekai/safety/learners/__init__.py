"""Safety learners on Stable-Baselines3, named by mode and algorithm."""

from sekai.safety.learners.classes import (
    ReachAvoidA2C,
    ReachAvoidDQN,
    ReachAvoidPPO,
    ReachAvoidSAC,
    SafetyA2C,
    SafetyDQN,
    SafetyPPO,
    SafetySAC,
    resolve_learner,
)

__all__ = [
    "ReachAvoidA2C",
    "ReachAvoidDQN",
    "ReachAvoidPPO",
    "ReachAvoidSAC",
    "SafetyA2C",
    "SafetyDQN",
    "SafetyPPO",
    "SafetySAC",
    "resolve_learner",
]
