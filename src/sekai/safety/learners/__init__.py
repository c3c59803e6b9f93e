"""Safety learners on Stable-Baselines3, named by mode and algorithm."""

try:
    import stable_baselines3  # noqa: F401  # all that follows needs it
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Safety learners need PyTorch and Stable-Baselines3: pip install 'sekai-rl[safety]', in a clone of the "
        "repository pip install '.[safety]'.",
        name=error.name,
    ) from error

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
