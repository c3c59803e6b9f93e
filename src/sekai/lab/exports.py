"""The shown run as a table and as a script that plays it again."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from typing import Any

import numpy as np

from sekai.lab.rows import Cell, Run
from sekai.lab.setups import Setup

COLUMNS = tuple(field.name for field in fields(Cell))
_JSON = ("action", "observation", "next_observation", "info")

# Worker processes of the backend proc import the script again; nothing may happen then.
_SCRIPT = '''"""A run of `sekai lab`, played again: prints what its collector counted, and every call as letters."""

from sekai.collect import Collector
from sekai.lab import LETTERS, Setup

SETUP = {setup}
CALLS = {calls}


def main():
    with SETUP.make() as vec:
        collector = Collector(vec, SETUP.player(vec), fragment_length=CALLS, restart=SETUP.restart)
        collector.reset(seed=SETUP.seed)
        fragment = collector.collect()
    counted = collector.counters
    print("calls", counted.calls)
    print("valid", counted.valid)
    print("reset_only", counted.reset_only)
    print("frozen", counted.frozen)
    print("episodes", counted.terminated + counted.truncated)
    print("calls x slots would claim", counted.calls * SETUP.slots)
    for row in fragment.kind:
        print("".join(LETTERS[kind] for kind in row))


if __name__ == "__main__":
    main()
'''


def to_csv(run: Run) -> str:
    """Every cell as a line, call by call; actions, observations and infos are JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for time in range(len(run)):
        for slot in range(run.setup.slots):
            cell = run.cell(time, slot)
            writer.writerow([_field(name, getattr(cell, name)) for name in COLUMNS])
    return text.getvalue()


def to_script(run: Run) -> str:
    """A Python script that makes the same calls.

    Raises:
        ValueError: there are no calls yet.
    """
    if not len(run):
        raise ValueError("The run has no calls yet; step it first.")
    return _SCRIPT.format(setup=_setup_text(run.setup), calls=len(run))


def plain(value: Any) -> Any:
    """A value of an environment in what JSON knows; what it does not know as its repr."""
    if isinstance(value, np.ndarray):
        return [plain(entry) for entry in value] if value.ndim else plain(value[()])
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else repr(value)


def _field(name: str, value: Any) -> Any:
    if name == "kind":
        return value.name
    return json.dumps(plain(value)) if name in _JSON else value


def _setup_text(setup: Setup) -> str:
    parts = "".join(f"    {field.name}={getattr(setup, field.name)!r},\n" for field in fields(setup))
    return f"Setup(\n{parts})"
