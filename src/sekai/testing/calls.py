"""How the checks call what they check: errors and draws from global generators become problems."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from numpy.random import get_state

from sekai.testing.problems import Problems


class Stopped(Exception):
    """What is checked raised, or returned what no check can go on with; it has been reported."""


def called(problems: Problems, what: str, call: Callable[[], Any]) -> Any:
    """The result of a call.

    Raises:
        Stopped: the call raised.
    """
    before = global_random_state()
    try:
        result = call()
    except TypeError as error:  # among others the refusals of what is no result
        problems.add("API", f"{what} failed: {error}", "Compare its signature and its result with the base class.")
        raise Stopped from error
    except Exception as error:
        problems.add("raises", f"{what} raised {type(error).__name__}: {error}", "It may not.")
        raise Stopped from error
    if global_random_state() != before:
        problems.add(
            "global random state",
            f"{what} drew from a global generator.",
            "Draw from self.rng (gymnasium: self.np_random), which reset(seed=...) seeds.",
        )
    return result


def global_random_state() -> tuple[Any, ...]:
    """The state of NumPy's global generator and of the standard library's."""
    standard = sys.modules.get("random")  # what nobody has imported nobody draws from
    state: Any = get_state()
    return state[1].tobytes(), state[2:], None if standard is None else standard.getstate()


def on_a_loop_of_its_own(run: Callable[[], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    """What a coroutine returns, also where a loop runs already, as in a notebook."""
    import asyncio  # not for everyone who imports sekai

    results: list[list[Any]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(asyncio.run(run()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="sekai-check")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
