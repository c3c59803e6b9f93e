"""`sekai check`: what `check_env` and `check_vec_env` say of a registered environment."""

from __future__ import annotations

from sekai.cli.output import on_terminal, progress, show_table
from sekai.registry import make, make_vec, spec
from sekai.testing import Problem, check_env, check_vec_env

NATIVE_SLOTS = 4


def check(id: str, *, steps: int, determinism: bool, strict: bool) -> int:
    """Check an environment, and its native version where it has one.

    Args:
        id: of the environment.
        steps: how many each check takes.
        determinism: also compare two runs.
        strict: whether a warning fails the check.

    Returns:
        The exit code: 1 where the check failed.
    """
    entry = spec(id)
    single = make(entry)
    try:
        with progress(f"{entry.id}", steps) as advance:
            found = check_env(single, steps=steps, determinism=determinism, progress=advance)
    finally:
        single.close()
    _report(entry.id, found, f"{steps} steps")
    native: list[Problem] = []
    if entry.is_native:
        with make_vec(entry, NATIVE_SLOTS, vectorization_mode="native") as vec:
            with progress(f"{entry.id}, native", steps) as advance:
                native = check_vec_env(vec, steps=steps, progress=advance)
            _report(entry.id, native, f"{steps} steps of {NATIVE_SLOTS} slots, native")
    failing = [problem for problem in (*found, *native) if strict or problem.severity == "error"]
    return int(bool(failing))


def _report(id: str, problems: list[Problem], what: str) -> None:
    if not problems:
        print(f"{id} no problems in {what}")
    elif on_terminal():
        rows = [
            (
                problem.severity,
                problem.rule,
                "" if problem.step is None else str(problem.step),
                problem.seen,
                problem.fix,
            )
            for problem in problems
        ]
        show_table(f"{id}: {what}", ("", "rule", "step", "what was seen", "what to do"), rows)
    else:
        for problem in problems:
            print(f"{id} {problem}")
