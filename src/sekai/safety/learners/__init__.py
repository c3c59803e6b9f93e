"""Safety learners on Stable-Baselines3, named by mode and algorithm."""

from sekai.safety.learners.classes import (
    ReachAvoidA2C,
    ReachAvoidDQN,
    ReachAvoidPPO,
    ReachAvoidPPO2P,
    ReachAvoidSAC,
    ReachAvoidSAC2P,
    SafetyA2C,
    SafetyDQN,
    SafetyPPO,
    SafetyPPO2P,
    SafetySAC,
    SafetySAC2P,
    resolve_learner,
)
from sekai.safety.learners.response import best_response

__all__ = [
    "ReachAvoidA2C",
    "ReachAvoidDQN",
    "ReachAvoidPPO",
    "ReachAvoidPPO2P",
    "ReachAvoidSAC",
    "ReachAvoidSAC2P",
    "SafetyA2C",
    "SafetyDQN",
    "SafetyPPO",
    "SafetyPPO2P",
    "SafetySAC",
    "SafetySAC2P",
    "best_response",
    "resolve_learner",
]
