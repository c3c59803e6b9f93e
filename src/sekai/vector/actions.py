"""Action batches: checked once, against the space of one sub-environment, before anything moves.

A batch is an array `(N, *shape)` (a dict of arrays for a `Dict` space, a tuple of arrays for a `Tuple` space)
or a list with one action per slot. Count, shape and dtype must fit and floats must be finite; bounds are the
environment's business, since many clip by design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sekai.core.snapshot import snapshot
from sekai.errors import InvalidAction
from sekai.spaces.checks import has_masked_entries


def check_actions(space: gymnasium.Space[Any], actions: Any, slots: int | Sequence[int]) -> Any:
    """The batch as arrays of the space's dtype that share no memory with what the caller gave.

    Args:
        space: action space of one sub-environment.
        actions: the batch, or a list with one action per slot.
        slots: which slots the actions are for; an int stands for that many, from the first on.

    Returns:
        What `iterate(space, ...)` takes; a plain list for spaces without a fixed size.

    Raises:
        InvalidAction: it does not fit; the message names the first bad sub-environment.
    """
    who = range(slots) if isinstance(slots, int) else slots
    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return _check_array(space, actions, who)
    if isinstance(space, spaces.Dict):
        if isinstance(actions, Mapping):
            _check_keys(space, actions, "the action batch")
            return {key: check_actions(part, actions[key], who) for key, part in space.spaces.items()}
        rows = _check_rows(space, actions, who, "a dict of arrays or a list of dicts")
        for i, row in zip(who, rows, strict=True):
            if not isinstance(row, Mapping):
                raise InvalidAction(f"The action of sub-env {i} is {row!r}; expected a dict, a member of {space}.")
            _check_keys(space, row, f"the action of sub-env {i}")
        return {key: check_actions(part, [row[key] for row in rows], who) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        if isinstance(actions, tuple):
            if len(actions) != len(space.spaces):
                raise InvalidAction(f"The action batch has {len(actions)} parts; expected {len(space.spaces)}.")
            return tuple(check_actions(part, a, who) for part, a in zip(space.spaces, actions, strict=True))
        rows = _check_rows(space, actions, who, "a tuple of arrays or a list of tuples")
        for i, row in zip(who, rows, strict=True):
            if not isinstance(row, tuple) or len(row) != len(space.spaces):
                raise InvalidAction(f"The action of sub-env {i} is {row!r}; expected a member of {space}.")
        return tuple(check_actions(part, [r[k] for r in rows], who) for k, part in enumerate(space.spaces))
    return [snapshot(action) for action in _check_rows(space, actions, who, "a list of actions")]


def _check_array(space: gymnasium.Space[Any], actions: Any, who: Sequence[int]) -> NDArray[Any]:
    dtype, n = space.dtype, len(who)
    expected = (n, *(space.shape or ()))
    assert dtype is not None
    if type(actions) is not np.ndarray:
        if has_masked_entries(actions):
            raise InvalidAction("The action batch has masked entries; expected an action for every sub-env.")
        actions = _stack_rows(space, actions, who)
    if actions.shape != expected:
        raise InvalidAction(
            f"The action batch has shape {actions.shape}; expected {expected}, one row for each of {n} sub-envs "
            f"with {space}."
        )
    if actions.dtype == dtype:
        batch: NDArray[Any] = actions.copy()
    else:
        batch = _cast(space, actions, who)
    if dtype.kind == "f" and not np.isfinite(batch).all():
        bad = int(np.flatnonzero(~np.isfinite(batch.reshape(n, -1)).all(axis=1))[0])
        raise InvalidAction(f"The action of sub-env {who[bad]} is {actions[bad]}; expected finite numbers.")
    return batch


def _cast(space: gymnasium.Space[Any], actions: NDArray[Any], who: Sequence[int]) -> NDArray[Any]:
    """The batch in the dtype of the space; floats that overflow become infinite."""
    problem = _dtype_problem(space, actions.dtype)
    if problem is not None:
        raise InvalidAction(
            f"The action batch has dtype {actions.dtype}: {problem} (sub-env {who[0]} is the first bad one)."
        )
    with np.errstate(over="ignore"):
        batch: NDArray[Any] = actions.astype(space.dtype, order="C")
    if batch.dtype.kind != "f" and not (batch == actions).all():
        bad = int(np.flatnonzero((batch != actions).reshape(len(batch), -1).any(axis=1))[0])
        raise InvalidAction(f"The action of sub-env {who[bad]} is {actions[bad]}, which {space.dtype} cannot hold.")
    return batch


def _dtype_problem(space: gymnasium.Space[Any], given: np.dtype[Any]) -> str | None:
    assert space.dtype is not None
    if space.dtype.kind == "f":
        return None if given.kind in "fiu" else f"{space} takes floats or ints"
    if isinstance(space, spaces.MultiBinary) and given.kind == "b":
        return None
    return None if given.kind in "iu" else f"{space} takes integers; convert the actions to {space.dtype}"


def _stack_rows(space: gymnasium.Space[Any], actions: Any, who: Sequence[int]) -> NDArray[Any]:
    """A list of per-slot actions as one array; an error names the first slot whose action does not fit."""
    assert space.dtype is not None
    rows = _check_rows(
        space, actions, who, f"an array of shape {(len(who), *(space.shape or ()))} or a list of actions"
    )
    arrays = []
    for i, row in zip(who, rows, strict=True):
        try:
            array = np.asarray(row)
        except (ValueError, TypeError):
            array = np.empty((), object)
        if array.shape != space.shape or array.dtype.kind not in "biuf":
            raise InvalidAction(f"The action of sub-env {i} is {row!r}; expected a member of {space}.")
        if _dtype_problem(space, array.dtype) is not None:
            raise InvalidAction(
                f"The action of sub-env {i} is {row!r} ({array.dtype}): {_dtype_problem(space, array.dtype)}."
            )
        # one by one: int64 and uint64 stacked would become floats
        if array.dtype != space.dtype and array.dtype.kind in "iu" and space.dtype.kind in "iu":
            fitting = array.astype(space.dtype)
            if not (fitting == array).all():
                raise InvalidAction(f"The action of sub-env {i} is {row!r}, which {space.dtype} cannot hold.")
            array = fitting
        arrays.append(array)
    return np.stack(arrays)


def _check_rows(space: gymnasium.Space[Any], actions: Any, who: Sequence[int], expected: str) -> Sequence[Any]:
    n = len(who)
    if not isinstance(actions, (list, tuple)):
        try:
            actions = np.asarray(actions)  # also an array of another library
        except (ValueError, TypeError):
            actions = np.empty((), object)
        if actions.ndim == 0:
            raise InvalidAction(f"The action batch must be {expected}, one for each of {n} sub-envs with {space}.")
    if len(actions) != n:
        raise InvalidAction(f"The action batch has {len(actions)} entries; expected {n}, one per sub-env.")
    rows: Sequence[Any] = actions
    return rows


def _check_keys(space: spaces.Dict, given: Mapping[str, Any], what: str) -> None:
    missing, extra = space.spaces.keys() - given.keys(), given.keys() - space.spaces.keys()
    if missing or extra:
        raise InvalidAction(
            f"The keys of {what} do not fit {space}: missing {sorted(missing)}, unknown {sorted(map(str, extra))}."
        )
