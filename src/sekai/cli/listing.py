"""`sekai list` and `sekai info`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sekai.cli.output import on_terminal, show_table
from sekai.registry import EnvSpec, all_specs, make, spec
from sekai.registry.specs import load_entry_point

NATIVE_MARK = "[native vec]"


def list_environments() -> None:
    """Print every registered id, its native mark, time limit and entry point."""
    rows = [(entry.id, _mark(entry), str(entry.max_episode_steps), _entry_point(entry)) for entry in all_specs()]
    if on_terminal():
        short = [(id, mark, limit, point.rpartition(":")[2]) for id, mark, limit, point in rows]
        show_table("Environments", ("id", "", "max_episode_steps", "class"), short)
        return
    for id, mark, limit, entry_point in rows:
        print(*filter(None, (id, mark, f"max_episode_steps={limit}", f"entry_point={entry_point}")))


def list_tasks() -> None:
    """Print every safety task: mode, players, end criterion, and whose weights it may begin with."""
    from sekai.safety.tasks import all_tasks

    tasks = all_tasks()
    rows = [
        (
            task.id,
            task.mode,
            "1-2" if task.supports_adversary else "1",
            task.end_criterion,
            task.warmstart_from or "-",
            task.description,
        )
        for task in tasks
    ]
    columns = ("id", "mode", "players", "ends", "warmstart_from", "description")
    if on_terminal():
        show_table("Safety tasks", columns, rows)
        return
    for id, *cells in rows:
        print(id, *(f"{name}={cell}" for name, cell in zip(columns[1:], cells, strict=True)))


def show_environment(id: str) -> None:
    """Print what one environment is: spaces, time limit, native or not, arguments with their defaults."""
    entry = spec(id)
    facts = list(_facts(entry))
    if on_terminal():
        show_table(f"{entry.id} {_mark(entry)}".rstrip(), ("", ""), facts)
        return
    for name, value in facts:
        print(f"{entry.id} {name.replace(' ', '_')}={value}")


def _facts(entry: EnvSpec) -> Iterator[tuple[str, str]]:
    env = make(entry)
    try:
        yield "observation space", str(env.observation_space)
        yield "action space", str(env.action_space)
        yield "layers", " > ".join(env.layers())
    finally:
        env.close()
    yield "max episode steps", str(entry.max_episode_steps)
    yield "reward threshold", str(entry.reward_threshold)
    yield "native", _entry_point(entry, native=True) if entry.is_native else "no"
    yield "entry point", _entry_point(entry)
    for name, default in _arguments(entry).items():
        yield f"kwargs.{name}", default


def _arguments(entry: EnvSpec) -> dict[str, str]:
    """Arguments of the constructor with their defaults, the registered ones in their place."""
    parameters = inspect.signature(load_entry_point(entry.entry_point, entry.id)).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    shown = {p.name: "(required)" if p.default is p.empty else _short(p.default) for p in named}
    return shown | {name: f"{_short(value)} (registered)" for name, value in entry.kwargs.items()}


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _mark(entry: EnvSpec) -> str:
    return NATIVE_MARK if entry.is_native else ""


def _entry_point(entry: EnvSpec, *, native: bool = False) -> str:
    point = entry.vector_entry_point if native else entry.entry_point
    if isinstance(point, str):
        return point
    return f"{getattr(point, '__module__', '?')}:{getattr(point, '__qualname__', repr(point))}"
