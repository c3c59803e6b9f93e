"""The documentation runs, and prints what its comments say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("runner.py")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT_S = 600


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in a fresh interpreter whose working directory is `folder`."""
    # One thread: two pages at once on two cores, with networks this small, would wait for each other's threads.
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(RUNNER), str(page)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def run_text(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return run(page, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    assert page.exists(), f"{page} is missing"
    done = run(page, tmp_path)
    assert done.returncode == 0, f"\n{done.stderr}\nIts output:\n{done.stdout}"


def test_readme_shows_code() -> None:
    assert "```python" in (ROOT / "README.md").read_text(encoding="utf-8")


RIGHT = """\
# A page

```python
x = 3
print(x)  # 3
```

Text between, and another language:

```bash
exit 1
```

- in a list:

  ```python
  for word in ("a", "a"):
      print(
          word,
          x + 1,
      )  # a 4
  print("said, and not compared")
  print("no # comment here", end="")  # no # comment here
  import os, sys
  print(os.listdir(), __name__)  # ['page.md'] __main__
  if __name__ == "__main__":
      print("guarded")  # guarded
  ```
"""


def test_a_page_that_keeps_its_word_passes(tmp_path: Path) -> None:
    done = run_text(RIGHT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["3", "a 4"]


@pytest.mark.parametrize(
    ("right", "wrong", "report"),
    [
        ("# 3", "# 4", "page.md:5: the comment says '4', printed was '3'"),
        ("# a 4", "# a  4", "page.md:21: the comment says 'a  4', printed was 'a 4'"),
        ('("a", "a")', '("a", "b")', "page.md:21: the comment says 'a 4', printed was 'b 4'"),
        ('("a", "a")', "()", "page.md:21: this print never ran; its comment says 'a 4'"),
        ('"guarded"', '"a\\nb"', "page.md:27: the comment says 'guarded', printed was 'a\\nb'"),
        ("x = 3", "x = 3 / 0", 'File "page.md", line 4'),
        ("x = 3", "x = = 3", 'File "page.md", line 4'),
        ("x = 3", "x = 3\nraise SystemExit", "SystemExit"),
        ("```python\nx", "```py\nx", "page.md:4: write ```python, not ```py: it is not run"),
        ("  ```\n", "", "line 16: the fence ```python is never closed"),
    ],
)
def test_a_page_that_breaks_its_word_fails(right: str, wrong: str, report: str, tmp_path: Path) -> None:
    done = run_text(RIGHT.replace(right, wrong, 1), tmp_path)
    assert done.returncode != 0
    assert report in done.stderr
    if report.startswith("page.md"):
        assert done.stderr.count("page.md:") == 1


def test_what_ran_before_an_exception_is_reported_too(tmp_path: Path) -> None:
    done = run_text(RIGHT.replace("# 3", "# 4").replace("import os, sys", "raise KeyError(x)"), tmp_path)
    assert "page.md:5: the comment says '4', printed was '3'" in done.stderr
    assert "KeyError: 3" in done.stderr


def test_classes_of_a_page_reach_worker_processes(tmp_path: Path) -> None:
    text = """\
```python
import multiprocessing
import cloudpickle


class Point:
    x = 7


if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        read = "__import__('pickle').loads(data)().x"
        print(pool.apply(eval, (read, {"data": cloudpickle.dumps(Point)})))  # 7
```
"""
    done = run_text(text, tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "7\n")
