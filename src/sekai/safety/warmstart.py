"""`warm_start`: a run begins with the weights of another one."""

from __future__ import annotations

from typing import Any

from sekai.safety.learners.base import SafetyLearner
from sekai.safety.tasks import SafetyTask


def require_warmstart(task: SafetyTask, source: str) -> None:
    """Refuse the runs of a task that does not give its weights to this one.

    Args:
        task: that begins.
        source: id of the task of the other run.

    Raises:
        ValueError: another one than `task.warmstart_from`.
    """
    if task.warmstart_from is None:
        raise ValueError(f"{task.id} takes no weights of another run: its task has no warmstart_from.")
    if source != task.warmstart_from:
        raise ValueError(f"{task.id} takes weights of runs of {task.warmstart_from}; this one is of {source}.")


def warm_start(learner: SafetyLearner, source: SafetyLearner) -> None:
    """Give the weights of one learner to another; steps, optimisers, replay and generators stay its own.

    Args:
        learner: takes the weights of all its networks, and the statistics of its observations. Of two players it takes
            those of both, and the earlier selves of its league begin as copies of them.
        source: gives them.

    Raises:
        ValueError: their classes, and so modes, differ, or their spaces, or networks; nothing has changed.
    """
    for name, mine, other in (
        ("class", type(learner).__name__, type(source).__name__),
        ("observation space", learner.observation_space, source.observation_space),
        ("action space", learner.action_space, source.action_space),
        ("networks", _shapes(learner), _shapes(source)),
    ):
        if mine != other:
            raise ValueError(f"The weights do not fit: {name} of the run that gives them: {other}; expected {mine}.")
    learner.take_weights(source)


def _shapes(learner: SafetyLearner) -> dict[str, Any]:
    """Names and shapes of all weights."""
    return {
        f"{network}.{name}": tuple(value.shape)
        for network, weights in learner.learned_networks().items()
        for name, value in weights.state_dict().items()
    }
