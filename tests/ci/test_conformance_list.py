"""`.ci/conformance.py`: checks listed as waiting must exist, have a reason and still fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "conformance.py"

SUITE = """\
import os
import pytest


def test_right():
    pass


@pytest.mark.parametrize("n", [1, 2])
def test_right_too(n):
    pass


@pytest.mark.parametrize("n", [1, 2])
def test_wrong(n):
    assert n == 0


def test_dies():
    os._exit(3)
"""
WAITING = "test_suite.py::test_wrong # needs numbers\ntest_suite.py::test_dies # needs a life\n"


def run(tmp_path: Path, todo: str | None, suite: str = SUITE) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "test_suite.py").write_text(suite, encoding="utf-8")
    listed = tmp_path / "todo.txt"
    if todo is not None:
        listed.write_text(todo, encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(folder), str(listed)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_listed_checks_are_left_out_while_they_fail(tmp_path: Path) -> None:
    done = run(tmp_path, f"# a comment\n\n{WAITING}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 checks wait" in done.stdout
    assert "3 passed, 3 deselected" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("test_suite.py::test_right # later", "test_suite.py::test_right passes now"),
        ("test_suite.py::test_right_too[2] # later", "test_suite.py::test_right_too[2] passes now"),
        ("test_suite.py::test_right_too # later", "test_suite.py::test_right_too[1] passes now"),
        ("test_suite.py::test_gone # later", "test_suite.py::test_gone does not exist"),
        ("test_suite.py::test_wrong[3] # later", "test_suite.py::test_wrong[3] does not exist"),
        ("test_suite.py::test_right", "has no reason"),
        ("test_suite.py::test_dies # again", "is listed twice"),
    ],
)
def test_a_list_that_is_out_of_date_fails(line: str, problem: str, tmp_path: Path) -> None:
    done = run(tmp_path, f"test_suite.py::test_dies # needs a life\n{line}\n")
    assert done.returncode == 1
    assert problem in done.stderr


def test_a_listed_name_does_not_hide_checks_whose_names_begin_with_it(tmp_path: Path) -> None:
    suite = "def test_a():\n    assert False\n\n\ndef test_ab():\n    assert False\n"
    done = run(tmp_path, "test_suite.py::test_a # later\n", suite)
    assert done.returncode == 1
    assert "1 failed, 1 deselected" in done.stdout.splitlines()[-1]


def test_without_a_list_every_check_must_pass(tmp_path: Path) -> None:
    suite = "def test_a():\n    pass\n\n\ndef test_b():\n    assert False\n"
    done = run(tmp_path, None, suite)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_a_suite_that_cannot_be_collected_fails(tmp_path: Path) -> None:
    done = run(tmp_path, WAITING, "import no_such_module_anywhere\n")
    assert done.returncode == 1
    assert "cannot be collected" in done.stderr
