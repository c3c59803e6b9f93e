"""What the page says of cells, counters and errors, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.lab.rows import Cell

#: id and what is said of each counter
NUMBERS = (
    ("calls", "calls of step"),
    ("valid", "valid transitions"),
    ("reset_only", "reset-only rows"),
    ("frozen", "frozen rows"),
    ("lost", "lost rows"),
    ("episodes", "episodes ended"),
    ("claim", "calls × slots would claim"),
)

NOT_INDEPENDENT = (
    "Real endings depend on the lengths of episodes; the slots are not independent identical trials, so this run need "
    "not spread as the binomial model does."
)


def details(cell: Cell) -> list[tuple[str, str, str]]:
    """What there is to know of a cell: id, name and value of each line."""
    yes = {True: "yes", False: "no"}
    given = "action" if cell.valid else "action (ignored)"
    after = "successor observation" if cell.valid else "next observation (no successor)"
    episode = f"{cell.episode_id}, step {cell.step_index}" if cell.valid else "none: no transition"
    return [
        ("place", "cell", f"call {cell.call}, slot {cell.slot}"),
        ("kind", "kind", cell.kind.name + (", both flags true" if cell.terminated and cell.truncated else "")),
        ("action", given, value(cell.action)),
        ("observation", "observation", value(cell.observation)),
        ("next_observation", after, value(cell.next_observation)),
        ("reward", "reward", f"{cell.reward:.6g}"),
        ("terminated", "terminated", yes[cell.terminated]),
        ("truncated", "truncated", yes[cell.truncated]),
        ("episode_id", "episode id", episode),
        ("bootstrap", "bootstrap mask", yes[cell.bootstrap]),
        ("trace", "trace mask", yes[cell.trace] + (" (the collector stops here)" if cell.cut else "")),
        ("episode_start", "episode-start mask", yes[cell.episode_start]),
        ("hidden", "memory before it", f"h = {cell.hidden:.6g}"),
        ("info", "info", value(cell.info)),
    ]


def value(given: Any) -> str:
    """An observation, action or info in one line; long arrays are shortened."""
    if isinstance(given, np.ndarray):
        return np.array2string(given, precision=5, threshold=40, edgeitems=4, max_line_width=10**6, separator=", ")
    if isinstance(given, dict):
        return "{" + ", ".join(f"{key}: {value(entry)}" for key, entry in given.items()) + "}"
    if isinstance(given, (tuple, list)):
        return "(" + ", ".join(map(value, given)) + ")"
    return f"{given:.6g}" if isinstance(given, (float, np.floating)) else str(given)


def problem(error: BaseException) -> str:
    """An error in one line: its first paragraph, with its kind where it is no sekai or value error."""
    from sekai.errors import SekaiError

    text = " ".join(str(error).strip().partition("\n\n")[0].split())
    if isinstance(error, (SekaiError, ValueError, TypeError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
