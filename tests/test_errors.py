"""The error tree is the one drawn on top of `errors.py`, and worker errors keep everything on their way."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

import sekai
from sekai import errors

LINE = re.compile(r"(?:├──|└──) (?P<name>\w+) +\((?P<builtin>\w+)\)")


def drawn() -> dict[str, str]:
    """Class name -> built-in, as the module docstring draws them."""
    return {found["name"]: found["builtin"] for found in LINE.finditer(errors.__doc__ or "")}


def defined() -> dict[str, type[BaseException]]:
    """The exception classes of the module by name."""
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }


def test_the_drawing_names_every_class_and_its_built_in() -> None:
    bases = {name: [base.__name__ for base in value.__bases__] for name, value in defined().items()}
    assert bases.pop("SekaiError") == ["Exception"]
    assert bases == {name: ["SekaiError", builtin] for name, builtin in drawn().items()}
    assert len(bases) == 9


def test_the_drawing_has_the_base_on_top() -> None:
    tree = [line.strip() for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")]
    assert tree[0] == "SekaiError"
    assert [LINE.match(line) is not None for line in tree[1:]] == [True] * 9
    assert [line[0] for line in tree[1:]] == ["├"] * 8 + ["└"]


@pytest.mark.parametrize("name", ["SekaiError", *drawn()])
def test_every_error_is_reached_from_the_root(name: str) -> None:
    assert getattr(sekai, name) is getattr(errors, name)


@pytest.mark.parametrize(("name", "builtin"), drawn().items())
def test_an_error_is_caught_as_its_built_in_and_as_ours(name: str, builtin: str) -> None:
    kinds = {"RuntimeError": RuntimeError, "ValueError": ValueError, "LookupError": LookupError}
    arguments = {"rank": 0, "exc_type": "ValueError"} if name == "VecEnvWorkerError" else {}
    error = getattr(errors, name)("text", **arguments)
    assert str(error) == "text"
    for kind in (kinds.pop(builtin), sekai.SekaiError):
        with pytest.raises(kind, match=r"^text$"):
            raise error
    assert not isinstance(error, tuple(kinds.values())), "only the built-in that is drawn"


def test_a_closed_vector_environment_has_a_text_of_its_own() -> None:
    assert str(sekai.VecEnvClosed()) == "This VecEnv has been closed."
    assert str(pickle.loads(pickle.dumps(sekai.VecEnvClosed("shut")))) == "shut"


def worker_error() -> sekai.VecEnvWorkerError:
    error = sekai.VecEnvWorkerError(
        "Sub-env 3 raised ValueError: nine is too much", rank=3, exc_type="ValueError", remote_traceback="Traceback ..."
    )
    error.add_note("while stepping")
    return error


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_worker_error_pickles_whole(protocol: int) -> None:
    back = pickle.loads(pickle.dumps(worker_error(), protocol))
    assert type(back) is sekai.VecEnvWorkerError
    assert str(back) == "Sub-env 3 raised ValueError: nine is too much"
    assert (back.rank, back.exc_type, back.remote_traceback) == (3, "ValueError", "Traceback ...")
    assert back.__notes__ == ["while stepping"]


def test_a_worker_error_copies_whole() -> None:
    back = copy.copy(worker_error())
    assert (back.rank, back.exc_type, back.args) == (3, "ValueError", worker_error().args)


def test_a_worker_that_died_leaves_an_empty_traceback() -> None:
    assert sekai.VecEnvWorkerError("m", rank=0, exc_type="EOFError").remote_traceback == ""
