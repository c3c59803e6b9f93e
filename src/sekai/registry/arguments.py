"""Keyword arguments checked before anything is built: what is unknown, and what belongs elsewhere."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sekai.vector import AsyncVecEnv, ProcVecEnv, RayVecEnv, SyncVecEnv

BACKENDS: dict[str, type[SyncVecEnv] | type[AsyncVecEnv] | type[ProcVecEnv] | type[RayVecEnv]] = {
    "sync": SyncVecEnv,
    "async": AsyncVecEnv,
    "proc": ProcVecEnv,
    "ray": RayVecEnv,
}

#: Arguments of every vector environment. No environment takes them, unless its constructor names them.
VECTOR_NAMES = frozenset({"autoreset", "autoreset_options"})
#: Arguments of `make_vec` itself.
MAKE_VEC_NAMES = frozenset({"num_envs", "vectorization_mode", "wrappers", "vector_kwargs", "max_episode_steps"})


class Accepted(NamedTuple):
    """The keyword arguments that a callable takes.

    Attributes:
        owner: name of the callable, for messages.
        names: those it names.
        anything: whether it takes others too (`**kwargs`, or a signature that cannot be read).
    """

    owner: str
    names: frozenset[str]
    anything: bool

    def takes(self, name: str) -> bool:
        """Whether the callable takes an argument of this name."""
        return self.anything or name in self.names


def accepted(creator: Callable[..., Any], without: Iterable[str] = ()) -> Accepted:
    """Read the signature of `creator`, leaving out the arguments in `without`."""
    owner = getattr(creator, "__name__", None) or repr(creator)
    try:
        parameters = inspect.signature(creator).parameters.values()
    except (TypeError, ValueError):  # some callables written in C have none
        return Accepted(owner, frozenset(), True)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return Accepted(owner, frozenset(named - set(without)), any(p.kind == p.VAR_KEYWORD for p in parameters))


def check_env_arguments(
    id: str,
    creator: Callable[..., Any],
    kwargs: Mapping[str, Any],
    native: Callable[[], Callable[..., Any]] | None = None,
) -> None:
    """Raise `TypeError` for an argument that the constructor of a single environment does not take.

    Args:
        id: of the environment.
        creator: the constructor.
        kwargs: the arguments.
        native: gives the constructor of the native vector environment; None where there is none.
    """
    known = accepted(creator)
    for name in kwargs:
        if not known.takes(name) or (name in VECTOR_NAMES and name not in known.names):
            where = _place(name) or (_of_native(name, native()) if native is not None else "") or _hint(name, known)
            raise TypeError(f"{id} ({known.owner}) takes no argument {name!r}.{where}")


def check_native_arguments(
    id: str,
    single: Callable[..., Any],
    native: Callable[..., Any],
    kwargs: Mapping[str, Any],
    limit: int | None,
    vector_kwargs: Mapping[str, Any],
) -> None:
    """Raise `TypeError` for an argument that the native constructor does not take, or in the wrong place.

    Args:
        id: of the environment.
        single: constructor of the single environment: what it names is an argument of the environment.
        native: constructor of the native one.
        kwargs: arguments of the environment, registered and given.
        limit: the time limit, or None.
        vector_kwargs: arguments of the vector environment.
    """
    of_env, known = accepted(single), accepted(native, {"num_envs"})
    for name in kwargs:
        if name in VECTOR_NAMES and name not in of_env.names:
            raise TypeError(f"{id} ({of_env.owner}) takes no argument {name!r}.{_place(name)}")
        if not known.takes(name):
            where = (
                f" The single environment does: use vectorization_mode='sync', or let {known.owner} take it."
                if of_env.takes(name)
                else _place(name) or _hint(name, known, VECTOR_NAMES | MAKE_VEC_NAMES)
            )
            raise TypeError(f"{id} ({known.owner}) takes no argument {name!r}.{where}")
    if limit is not None and not known.takes("max_episode_steps"):
        raise TypeError(
            f"{id} has a time limit of {limit} steps, and {known.owner} takes no argument "
            "'max_episode_steps' to apply it: take it and hand it to NativeVecEnv.__init__."
        )
    _check_place(id, vector_kwargs, {*kwargs} | (of_env.names - VECTOR_NAMES))
    _check_vector_arguments(known, vector_kwargs)


def check_backend_arguments(
    id: str, single: Callable[..., Any], backend: Callable[..., Any], vector_kwargs: Mapping[str, Any]
) -> None:
    """Raise `TypeError` for an entry of `vector_kwargs` that the backend does not take."""
    known = accepted(backend, {"env_fns"})
    _check_place(id, vector_kwargs, accepted(single).names - known.names)
    _check_vector_arguments(known, vector_kwargs)


def _check_place(id: str, vector_kwargs: Mapping[str, Any], of_env: Iterable[str]) -> None:
    for name in vector_kwargs:
        if name in MAKE_VEC_NAMES:
            raise TypeError(f"vector_kwargs has {name!r}, which is an argument of make_vec itself.")
        if name in of_env:
            raise TypeError(
                f"vector_kwargs has {name!r}, which is an argument of the environment: "
                f"make_vec({id!r}, ..., {name}=...)."
            )


def _check_vector_arguments(known: Accepted, vector_kwargs: Mapping[str, Any]) -> None:
    for name in vector_kwargs:
        if not known.takes(name):
            others = _modes_that_take(name)
            where = f" It is one of vectorization_mode={others}." if others else _hint(name, known)
            raise TypeError(f"{known.owner} takes no argument {name!r} (in vector_kwargs).{where}")


def _place(name: str) -> str:
    """Where an argument that no environment takes belongs, or `""`."""
    if name in MAKE_VEC_NAMES:
        return f" It is an argument of make_vec: sekai.make_vec(id, ..., {name}=...)."
    modes = _modes_that_take(name)
    if not modes:
        return ""
    only = "" if name in VECTOR_NAMES else f" with vectorization_mode={modes}"
    return f" It belongs in vector_kwargs: sekai.make_vec(id, ..., vector_kwargs={{{name!r}: ...}}){only}."


def _of_native(name: str, native: Callable[..., Any]) -> str:
    """Where an argument belongs that only the native vector environment names, or `""`."""
    if name not in accepted(native).names:
        return ""
    return (
        f" It is an argument of the native vector environment: sekai.make_vec(id, ..., {name}=...) with "
        "vectorization_mode='native', and no wrappers."
    )


def _modes_that_take(name: str) -> str:
    """The backends with a constructor argument of this name, for a message; `""` for none."""
    takes = (mode for mode, backend in BACKENDS.items() if name in accepted(backend, {"env_fns"}).names)
    return " or ".join(map(repr, takes))


def _hint(name: str, known: Accepted, hidden: Iterable[str] = ()) -> str:
    names = sorted((known.names | MAKE_VEC_NAMES) - set(hidden))
    close = difflib.get_close_matches(name, names, n=3) or [other for other in names if name in other]
    if close:
        return f" Did you mean {', '.join(map(repr, close))}?"
    taken = sorted(known.names - set(hidden))
    return f" It takes: {', '.join(taken)}." if taken else " It takes none."
