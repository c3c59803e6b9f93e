"""Safety tasks: environments with margins, by id; margins made of margins. `finance` has those of trading."""

from sekai.safety.tasks.algebra import Margin, all_of, any_of, clamped, compose, scaled
from sekai.safety.tasks.margined import with_margins
from sekai.safety.tasks.registry import all_tasks, deregister_task, find_task, register_task
from sekai.safety.tasks.task import SafetyTask

__all__ = [
    "Margin",
    "SafetyTask",
    "all_of",
    "all_tasks",
    "any_of",
    "clamped",
    "compose",
    "deregister_task",
    "find_task",
    "register_task",
    "scaled",
    "with_margins",
]
