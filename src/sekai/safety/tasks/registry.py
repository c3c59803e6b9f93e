"""Tasks by id: `register_task`, `find_task`, `all_tasks`."""

from __future__ import annotations

import difflib
import re

from sekai.errors import EnvAlreadyRegistered, EnvNotFound
from sekai.registry.store import check_id
from sekai.safety.tasks.builtin import BUILTIN
from sekai.safety.tasks.task import SafetyTask

_TASKS: dict[str, SafetyTask] = {task.id: task for task in BUILTIN}


def register_task(task: SafetyTask) -> SafetyTask:
    """Let `sekai train` and `find_task` know a task.

    Returns:
        The task.

    Raises:
        EnvAlreadyRegistered: its id is taken by another task; that of an environment may be the same.
        TypeError, ValueError: no task, or an id that is none.
    """
    if not isinstance(task, SafetyTask):
        raise TypeError(f"The task is {task!r}; expected a SafetyTask.")
    check_id(task.id)
    if task.id in _TASKS:
        raise EnvAlreadyRegistered(f"The task {task.id!r} is registered already: choose another id.")
    _TASKS[task.id] = task
    return task


def deregister_task(id: str) -> None:
    """Forget a task.

    Raises:
        EnvNotFound: there is none of this id.
    """
    del _TASKS[find_task(id).id]


def find_task(id: str) -> SafetyTask:
    """The task of an id; one without a version means the highest.

    Raises:
        EnvNotFound: there is none; the message has the closest ids.
    """
    if not isinstance(id, str):
        raise TypeError(f"The id of a task is {id!r} ({type(id).__name__}); expected a string.")
    versions = {
        int(match[1]): task
        for name, task in _TASKS.items()
        if (match := re.fullmatch(rf"{re.escape(id)}-v(\d+)", name))
    }
    if id in _TASKS:
        return _TASKS[id]
    if versions:
        return versions[max(versions)]
    close = difflib.get_close_matches(id, _TASKS, n=3, cutoff=0.0)
    raise EnvNotFound(
        f"{id} is no safety task: `sekai list --tasks` shows all, and register_task makes one, in a module that is "
        f"named as `sekai -m MODULE train ...`. The closest: {', '.join(close)}."
    )


def all_tasks() -> list[SafetyTask]:
    """All tasks, in the order of their ids."""
    return [_TASKS[id] for id in sorted(_TASKS)]
