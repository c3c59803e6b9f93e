"""How the checks call what they check: errors and draws from global generators become problems."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from numpy.random import get_state

from sekai.stats.state import Freezable
from sekai.testing.problems import Problems


class Stopped(Exception):
    """What is checked raised, or returned what no check can go on with; it has been reported."""


@contextmanager
def reporting(problems: Problems) -> Iterator[None]:
    """Let the end of a check, and what nobody foresaw, not reach the caller: it is a problem like any other."""
    try:
        yield
    except Stopped:
        return  # it has been reported
    except Exception as error:
        problems.add(
            "raises",
            f"The check met {type(error).__name__}: {error}",
            "Look at what was returned last, and at the spaces.",
        )


def called(problems: Problems, what: str, call: Callable[[], Any]) -> Any:
    """The result of a call.

    Raises:
        Stopped: the call raised.
    """
    before = global_random_state()
    try:
        result = call()
    except Exception as error:
        if isinstance(error, TypeError) and _raised_in(error) in ("sekai.core.env", "sekai.testing.check"):
            problems.add("API", f"{what} failed: {error}", "Compare its signature and its result with the base class.")
        else:
            problems.add(
                "raises",
                f"{what} raised {type(error).__name__}: {error}",
                "What the spaces allow must be accepted; end the episode where there is no next state.",
            )
        raise Stopped from error
    if global_random_state() != before:
        problems.add(
            "global random state",
            f"{what} drew from a global generator.",
            "Draw from self.rng (gymnasium: self.np_random), which reset(seed=...) seeds.",
        )
    return result


def _raised_in(error: Exception) -> str:
    """The module in which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))


def global_random_state() -> tuple[Any, ...]:
    """The state of NumPy's global generator and of the standard library's."""
    standard = sys.modules.get("random")  # what nobody has imported nobody draws from
    state: Any = get_state()
    return state[1].tobytes(), state[2:], None if standard is None else standard.getstate()


@contextmanager
def frozen_statistics(layers: Iterable[Any]) -> Iterator[None]:
    """Let normalisers stand still, so that two runs can be compared."""
    with ExitStack() as stack:
        for layer in layers:
            if isinstance(layer, Freezable):
                stack.enter_context(layer.freeze())
        yield


def without_a_loop(run: Callable[[], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    """What a coroutine returns that awaits nothing, in this thread and outside any loop of its own."""
    try:
        run().send(None)
    except StopIteration as end:
        results: list[Any] = end.value
        return results
    raise AssertionError("the coroutine waits for something")


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
