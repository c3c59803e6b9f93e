"""Run the conformance suite; the checks listed as waiting for a later issue must still fail.

Usage: python .ci/conformance.py SUITE_FOLDER TODO_FILE

The listed checks run first, each in a process of its own (one may hang or take its process down), then all
the others in one ordinary pytest run, whose closing line ends the output. The exit code is 0 only when every
unlisted check passes and every listed one exists and fails. The suite's folder may be read-only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

TIMEOUT_S = 120.0


def arguments(suite: Path) -> list[str]:
    """Pytest's arguments. The suite's folder is the root, so ids read `test_file.py::test_name`."""
    return ["-p", "no:cacheprovider", "-q", f"--rootdir={suite}"]


class LeaveOut:
    """Pytest plugin: deselect exactly these checks (`--deselect` would take them as prefixes)."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.leave_out = frozenset(ids)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        dropped = [item for item in items if item.nodeid in self.leave_out]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = [item for item in items if item.nodeid not in self.leave_out]


def read_todo(text: str) -> dict[str, str]:
    """Map each listed check to its reason; ValueError for a line without one and for a repeated check."""
    entries: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        check, mark, reason = line.rpartition(" # ")
        check, reason = check.strip(), reason.strip()
        if not (mark and check and reason):
            raise ValueError(f"line {number}: {line!r} has no reason; write `test_file.py::test_name # reason`")
        if check in entries:
            raise ValueError(f"line {number}: {check!r} is listed twice; remove one of the lines")
        entries[check] = reason
    return entries


def expand(entries: Iterable[str], ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the entries into the exact ids of existing checks, and the entries that match none."""
    known, found, unknown = list(ids), [], []
    for entry in entries:
        matches = [i for i in known if i == entry or i.startswith(f"{entry}[")]
        found += matches
        if not matches:
            unknown.append(entry)
    return list(dict.fromkeys(found)), unknown


def passes(suite: Path, check: str) -> bool:
    """Whether one check passes in a process of its own. A hang or a crash is a failure like any other."""
    command = [sys.executable, "-m", "pytest", *arguments(suite), f"{suite}/{check}"]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            # Its session holds whatever the check left running, worker processes included.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def collect(suite: Path) -> list[str]:
    """The ids of all checks of the suite, in order. Exits with pytest's report if it cannot be collected."""
    command = [sys.executable, "-m", "pytest", *arguments(suite), "--collect-only", str(suite)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nconformance: the suite in {suite} cannot be collected")
    return [line for line in done.stdout.splitlines() if "::" in line]


def main(suite: Path, todo: Path) -> int:
    """Run both parts and return the exit code."""
    problems: list[str] = []
    waiting: list[str] = []
    if todo.exists():
        try:
            entries = read_todo(todo.read_text(encoding="utf-8"))
        except ValueError as error:
            sys.exit(f"{todo}: {error}")
        if entries:
            waiting, unknown = expand(entries, collect(suite))
            problems += [f"{check} does not exist: remove its line from {todo}" for check in unknown]
    for check in waiting:
        if passes(suite, check):
            problems.append(f"{check} passes now: remove its line from {todo}")
    print(
        f"conformance: {len(waiting)} checks wait for a later issue, {len(problems)} problems with the list",
        flush=True,
    )
    code = pytest.main([*arguments(suite), str(suite)], plugins=[LeaveOut(waiting)])
    for problem in problems:
        print(f"conformance: {problem}", file=sys.stderr)
    return int(code) or bool(problems)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
