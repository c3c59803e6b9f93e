"""The state of a replay buffer as plain arrays.

capacity, num_envs         what must be the same in the buffer that takes the state
head, count, open          of the rings of the slots
observations.0, ...        columns, cut to the rows that are filled
latest.0, successors.0     successors that are no stored row: the latest of each slot, and the table
free                       places of the table that are free
rng.*                      the generator of the draws
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.states import Arrays, generator_arrays, generator_from, part_of, read_state

if TYPE_CHECKING:
    from sekai.collect.replay import ReplayBuffer

_ADVICE = "a state fits a buffer made of the same arguments."


def save(buffer: ReplayBuffer) -> Arrays:
    """The state; see the module."""
    filled = int(buffer._count.max())
    rng = {f"rng.{name}": array for name, array in generator_arrays(buffer.rng).items()}
    views = {**_fixed(buffer), **_views(buffer, filled, buffer._table.used), "free": _free(buffer)}
    return {**{name: array.copy() for name, array in views.items()}, **rng}


def load(buffer: ReplayBuffer, state: Any) -> None:
    """Take over a state; everything is read and checked before anything changes."""
    given = read_state(state)
    for name, own in _fixed(buffer).items():
        if name not in given or not np.array_equal(given[name], own):
            found = given[name].tolist() if name in given else "missing"
            raise ValueError(f"state[{name!r}] is {found}; expected {own}: {_ADVICE}")
    rng = generator_from(part_of(given, "rng"))
    if rng is None:
        raise ValueError("The state lacks 'rng.*', the generator of the draws; expected what state_dict() returned.")
    rest = {name: array for name, array in given.items() if not name.startswith("rng.")}
    filled = _filled(rest, buffer)
    used = len(rest["successors.0"]) if "successors.0" in rest and rest["successors.0"].ndim else 0
    empty = np.zeros(rest["free"].shape if "free" in rest and rest["free"].ndim == 1 else 0, np.int64)
    table = [np.empty((used, *leaf.shape), leaf.dtype) for leaf in buffer._observations.leaves]
    like = {**_fixed(buffer), **_views(buffer, filled, used, table), "free": empty}
    _check_like(rest, like)
    _check_places(rest, used)
    _check_rings(rest, buffer)
    buffer._table.used, buffer._table.free = 0, rest["free"].tolist()
    buffer._table.reserve(used)
    buffer._table.used = used
    buffer._place[:] = -1
    for name, view in _views(buffer, filled, used).items():
        view[...] = rest[name]
    buffer.rng = rng


def _fixed(buffer: ReplayBuffer) -> Arrays:
    return {"capacity": np.array(buffer.capacity), "num_envs": np.array(buffer.num_envs)}


def _free(buffer: ReplayBuffer) -> NDArray[np.int64]:
    return np.array(buffer._table.free, np.int64)


def _views(buffer: ReplayBuffer, filled: int, used: int, table: list[NDArray[Any]] | None = None) -> Arrays:
    """The arrays of a buffer that a state holds, cut to what is in use."""
    columns = {
        "rewards": buffer._rewards,
        "terminated": buffer._terminated,
        "truncated": buffer._truncated,
        "continues": buffer._continues,
        "places": buffer._place,
        **{f"observations.{i}": column for i, column in enumerate(buffer._seen)},
        **{f"actions.{i}": column for i, column in enumerate(buffer._done)},
        **{f"extras.{name}": column for name, column in zip(buffer._extras, buffer._more, strict=True)},
    }
    leaves = buffer._table.leaves if table is None else table
    return {
        "head": buffer._head,
        "count": buffer._count,
        "open": buffer._open,
        **{f"latest.{i}": leaf for i, leaf in enumerate(buffer._latest)},
        **{f"successors.{i}": leaf[:used] for i, leaf in enumerate(leaves)},
        **{name: column[: filled * buffer.num_envs] for name, column in columns.items()},
    }


def _filled(given: Arrays, buffer: ReplayBuffer) -> int:
    """Rows of the fullest ring."""
    count = given.get("count")
    if count is None or count.shape != buffer._count.shape or count.dtype != buffer._count.dtype:
        found = "missing" if count is None else f"{count.dtype} of shape {count.shape}"
        raise ValueError(f"state['count'] is {found}; expected int64 of shape {buffer._count.shape}: {_ADVICE}")
    if not ((count >= 0) & (count <= buffer._length)).all():
        raise ValueError(f"state['count'] is {count.tolist()}; expected numbers from 0 to {buffer._length}.")
    return int(count.max())


def _check_like(given: Arrays, like: Arrays) -> None:
    if given.keys() != like.keys():
        raise ValueError(f"The state has {sorted(given)}; expected the names {sorted(like)}: {_ADVICE}")
    for name, own in like.items():
        if given[name].shape != own.shape or given[name].dtype != own.dtype:
            raise ValueError(
                f"state[{name!r}] has shape {given[name].shape} and dtype {given[name].dtype}; expected {own.shape} "
                f"and {own.dtype}: {_ADVICE}"
            )


def _check_rings(given: Arrays, buffer: ReplayBuffer) -> None:
    head, count, length = given["head"], given["count"], buffer._length
    filling = count < length
    if not ((head >= 0) & (head < length)).all() or (head != count)[filling].any():
        raise ValueError(
            f"state['head'] is {head.tolist()}; expected numbers in [0, {length}), and those of 'count' in rings that "
            f"are not full yet, {count.tolist()}."
        )
    slots = np.flatnonzero(count)
    newest = (head[slots] - 1) % length * buffer.num_envs + slots
    if given["continues"][newest].any() or (given["places"][newest] >= 0).any():
        raise ValueError("The newest rows of the state have a row after them; expected what state_dict() returned.")


def _check_places(given: Arrays, used: int) -> None:
    """Refuse places that the table does not have, or that two rows share."""
    places = given["places"]
    taken = np.sort(np.concatenate([places[places >= 0], given["free"]]))
    if (places < -1).any() or not np.array_equal(taken, np.arange(used)):
        raise ValueError(
            f"state['places'] and state['free'] name {taken.tolist()[:20]}; expected each of the {used} rows of the "
            "table once."
        )
