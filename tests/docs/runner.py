"""Run the Python blocks of one Markdown file and compare what they print with their comments.

    python tests/docs/runner.py FILE.md

All ```python blocks of a file run one after another in one namespace, as `__main__`. Where a `print(...)`
statement is followed by a comment on its last line,

    print(vec.num_envs)  # 4

the comment is what that call prints. Every difference is reported with its line in the file; so is a
commented `print` that never ran, and a fence in another spelling (```py, ```pycon), which would escape the
check. The exit code is 0 when all is as written. Standard output belongs to the blocks, reports go to
standard error.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import textwrap
import tokenize
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<language>[\w.+-]*)[^`]*$")
OTHER_SPELLINGS = frozenset({"py", "py3", "python3", "pycon", "ipython", "Python"})
HOOK = "__print_in_line__"


@dataclass(frozen=True)
class Block:
    """One fenced block: `line` is the number, from 1, of its first line of code in the file."""

    language: str
    line: int
    code: str


def blocks(text: str) -> Iterator[Block]:
    """All fenced blocks of a Markdown text, in order. Raises ValueError for a fence that is never closed."""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        opening = FENCE.match(lines[position])
        position += 1
        if opening is None:
            continue
        ticks, first, body = opening["ticks"], position, []
        while position < len(lines) and not _closes(lines[position], ticks):
            body.append(lines[position])
            position += 1
        if position == len(lines):
            raise ValueError(f"line {first}: the fence {ticks}{opening['language']} is never closed")
        position += 1
        yield Block(opening["language"], first + 1, textwrap.dedent("\n".join(body)) + "\n")


def _closes(line: str, ticks: str) -> bool:
    stripped = line.strip()
    return stripped.startswith(ticks) and not stripped.strip(ticks[0])


def comments(code: str) -> dict[int, str]:
    """The comment of each line that has one, without its mark."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {t.start[0]: t.string[1:].strip() for t in tokens if t.type == tokenize.COMMENT}


def expectations(tree: ast.Module, notes: dict[int, str]) -> dict[int, str]:
    """Redirect each commented `print` statement to the hook, and return line -> what it should print."""
    expected = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        call, end = node.value, node.end_lineno or node.lineno
        if isinstance(call.func, ast.Name) and call.func.id == "print" and end in notes:
            expected[end] = notes[end]
            call.func = ast.copy_location(ast.Name(HOOK, ast.Load()), call.func)
            call.args.insert(0, ast.copy_location(ast.Constant(end), call))
    return expected


@dataclass
class Page:
    """One file being run: what its commented prints should say, and what they said."""

    name: str
    namespace: dict[str, Any]
    expected: dict[int, str] = field(default_factory=dict)
    printed: dict[int, list[str]] = field(default_factory=dict)

    def hook(self, line: int, *values: Any, **options: Any) -> None:
        """Print as asked, and remember the text under its line in the file."""
        heard = io.StringIO()
        builtins.print(*values, **{**options, "file": heard})
        builtins.print(*values, **options)
        self.printed.setdefault(line, []).append(heard.getvalue().rstrip())

    def run(self, block: Block) -> None:
        """Run one block. Line numbers, also those in tracebacks, are lines of the file."""
        code = "\n" * (block.line - 1) + block.code
        tree = ast.parse(code, self.name)
        self.expected |= expectations(tree, comments(code))
        exec(compile(tree, self.name, "exec"), self.namespace)

    def problems(self) -> list[str]:
        """Where the prints and their comments differ, for all blocks run so far."""
        found = []
        for line, expected in sorted(self.expected.items()):
            printed = self.printed.get(line, [])
            if not printed:
                found.append(f"{self.name}:{line}: this print never ran; its comment says {expected!r}")
            found += [
                f"{self.name}:{line}: the comment says {expected!r}, printed was {text!r}"
                for text in dict.fromkeys(printed)
                if text != expected
            ]
        return found


def run_page(path: Path) -> list[str]:
    """Run a file's blocks and return the problems, an exception's traceback among them."""
    page_blocks = list(blocks(path.read_text(encoding="utf-8")))
    strange = [block for block in page_blocks if block.language in OTHER_SPELLINGS]
    if strange:
        return [f"{path.name}:{b.line}: write ```python, not ```{b.language}: it is not run" for b in strange]
    # A real `__main__`, so that classes of the page reach worker processes like those of a script.
    main = types.ModuleType("__main__")
    page = Page(path.name, vars(main))
    page.namespace[HOOK] = page.hook
    sys.modules["__main__"] = main
    try:
        for block in page_blocks:
            if block.language == "python":
                page.run(block)
    # A page that exits has not shown the rest of what it promises.
    except (Exception, SystemExit):
        return [*page.problems(), traceback.format_exc()]
    return page.problems()


if __name__ == "__main__":
    found = run_page(Path(sys.argv[1]).resolve())
    sys.stderr.write("".join(f"{problem}\n" for problem in found))
    sys.exit(bool(found))
