"""The `sekai` command: `list`, `info`, `bench`, `check`, `demo`, `backtest`, `lab`, `train`, `certify`.

Everything it needs is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: words after `sekai`; by default those of the process.

    Returns:
        The exit code: 0, 1 where `check` found mistakes, 2 after an error (one line on stderr), 130 after an
        interrupt.
    """
    from sekai.cli.app import run

    return run(arguments)


__all__ = ["main"]
