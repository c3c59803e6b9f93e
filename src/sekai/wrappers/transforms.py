"""Formulas of the stateless wrappers, once for single environments and batches.

Each function takes a space and gives the changed space with a function of its values, samples and batches alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.spaces import Box, Dict, Tuple, has_fixed_size, map_boxes
from sekai.spaces.boxes import ArrayMap


class Transform(NamedTuple):
    """A changed space, and the function that brings a value of the given one into it."""

    space: gymnasium.Space[Any]
    apply: Callable[[Any], Any]


def rescaled(space: gymnasium.Space[Any], low: ArrayLike, high: ArrayLike, *, name: str) -> Transform:
    """Every `Box` part brought from its bounds to `[low, high]`, linearly; integers become float32.

    Raises:
        ValueError: a part is unbounded or has equal bounds, or `low < high` does not hold throughout.
    """

    def change(box: gymnasium.spaces.Box[Any], place: str) -> tuple[Box, ArrayMap]:
        target = _bounds(box, low, high, name, place)
        return target, _line(box, target)

    return Transform(*map_boxes(space, change))


def unscaled(space: gymnasium.Space[Any], low: ArrayLike, high: ArrayLike, *, name: str) -> Transform:
    """The inverse: a space whose `Box` parts have the bounds `[low, high]`, and the function back to those given.

    Raises:
        ValueError: as `rescaled`.
    """

    def change(box: gymnasium.spaces.Box[Any], place: str) -> tuple[Box, ArrayMap]:
        source = _bounds(box, low, high, name, place)
        return source, _line(source, box)

    return Transform(*map_boxes(space, change))


def clipped(space: gymnasium.Space[Any]) -> Transform:
    """Every `Box` part held to its bounds; NaN stays NaN."""

    def change(box: gymnasium.spaces.Box[Any], place: str) -> tuple[Box, ArrayMap]:
        return Box(box.low, box.high, dtype=box.dtype), partial(_clip, box.low, box.high)

    return Transform(*map_boxes(space, change))


def cast(space: gymnasium.Space[Any], dtype: DTypeLike) -> Transform:
    """Every `Box` part, bounds and values, in another dtype.

    Raises:
        TypeError: no integer or floating dtype.
        ValueError: the dtype cannot hold the bounds, or values between them that are no whole numbers.
    """
    kind = np.dtype(dtype)
    if kind.kind not in "iuf":
        raise TypeError(f"DtypeObservation: dtype is {kind}; expected an integer or a floating dtype.")

    def change(box: gymnasium.spaces.Box[Any], place: str) -> tuple[Box, ArrayMap]:
        if box.dtype.kind == "f" and kind.kind != "f":
            raise ValueError(
                f"DtypeObservation: observation{place} is {box.dtype}, and {kind} would cut its fractions."
            )
        if kind.kind != "f" and not _holds(kind, box):
            raise ValueError(f"DtypeObservation: {kind} does not hold the bounds of observation{place}, {box}.")
        low, high = box.low, box.high
        if kind.kind == "f":  # an unbounded side of an integer box is stored as the dtype's limit
            low = np.where(box.bounded_below, low, -np.inf)
            high = np.where(box.bounded_above, high, np.inf)
        return Box(low, high, dtype=kind), partial(np.array, dtype=kind)

    return Transform(*map_boxes(space, change))


def filtered(space: gymnasium.Space[Any], keys: Iterable[Any]) -> Transform:
    """Some keys of a `Dict`, or some places of a `Tuple`, in the order given.

    Raises:
        TypeError: another space, or a string for the keys.
        ValueError: no key, a key given twice, or one that the space lacks.
    """
    if not isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        raise TypeError(f"FilterObservation needs a Dict or Tuple observation; given {space}.")
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise TypeError(f"FilterObservation: keys is {keys!r}; expected a list of keys, such as [{keys!r}].")
    wanted = list(keys)
    is_dict = isinstance(space, gymnasium.spaces.Dict)
    known = list(space.spaces) if is_dict else list(range(len(space.spaces)))
    if not wanted or any(wanted.count(key) > 1 for key in wanted):
        raise ValueError(f"FilterObservation: keys is {wanted}; expected at least one of {known}, each once.")
    for key in wanted:
        if not any(type(key) is type(other) and key == other for other in known):
            close = difflib.get_close_matches(str(key), map(str, known), n=3) if is_dict else []
            hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            raise ValueError(f"FilterObservation: the observation has no {key!r}; it has {known}.{hint}")
    if is_dict:
        parts = [(key, space.spaces[key]) for key in wanted]
        return Transform(Dict(parts, sort_keys=False), partial(_some_keys, wanted))
    return Transform(Tuple(space.spaces[k] for k in wanted), partial(_some_places, wanted))


def require_fixed_size(space: gymnasium.Space[Any], name: str) -> None:
    """Refuse a space whose samples differ in size.

    Raises:
        TypeError: it has no fixed size.
    """
    if not has_fixed_size(space):
        raise TypeError(f"{name} needs samples of one size; given {space}. PadSequenceObservation makes them so.")


def append_time(observations: NDArray[Any], steps: Any, limit: int) -> NDArray[Any]:
    """`(..., D)` observations with the fraction of the limit that has passed as their last entry, `(..., D + 1)`.

    Args:
        observations: one, or a batch of them.
        steps: steps taken, `(...)`.
        limit: the time limit.

    Raises:
        ValueError: more steps than the limit, so that the time would leave `[0, 1]`.
    """
    if np.max(steps, initial=0) > limit:
        raise ValueError(
            f"Step {np.max(steps)} of the episode is beyond the limit given (max_episode_steps={limit}); give the one "
            "at which the episode really ends."
        )
    time = np.asarray(steps / limit, observations.dtype)
    return np.concatenate([observations, time[..., None]], axis=-1)


def time_aware(space: gymnasium.Space[Any], *, name: str) -> Box:
    """The space of `append_time`.

    Raises:
        TypeError: no one-dimensional `Box` of floats.
    """
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        raise TypeError(f"{name} needs a one-dimensional Box of floats; given {space}.")
    return Box(np.append(space.low, 0.0), np.append(space.high, 1.0), dtype=space.dtype.type)


def _bounds(box: gymnasium.spaces.Box[Any], low: ArrayLike, high: ArrayLike, name: str, place: str) -> Box:
    """A box of the shape of `box` with other bounds, once both are seen to be usable."""
    if not (np.isfinite(box.low).all() and np.isfinite(box.high).all() and box.is_bounded("both")):
        raise ValueError(f"{name} needs bounds to scale from; {place or 'the space'} is {box}.")
    if not (box.low < box.high).all():
        raise ValueError(f"{name} cannot scale an interval of length zero; {place or 'the space'} is {box}.")
    ends = np.abs([np.asarray(box.low, np.float64), np.asarray(box.high, np.float64)])
    if (ends > (np.finfo(np.float64).max / 4 if box.dtype.kind == "f" else 2.0**53)).any():
        raise ValueError(f"{name} cannot scale an interval that long; {place or 'the space'} is {box}.")
    try:
        lowest, highest = (np.broadcast_to(np.asarray(bound, np.float64), box.shape) for bound in (low, high))
    except ValueError as error:
        raise ValueError(
            f"{name}: bounds of shape {np.shape(low)} and {np.shape(high)} do not fit {place or 'the space'}, {box}."
        ) from error
    if not (np.isfinite(lowest).all() and np.isfinite(highest).all() and (lowest < highest).all()):
        raise ValueError(f"{name}: bounds {low!r} and {high!r}; expected finite numbers, the lower below the higher.")
    made = Box(lowest, highest, dtype=box.dtype if box.dtype.kind == "f" else np.float32)
    if not (made.low < made.high).all():
        raise ValueError(f"{name}: bounds {low!r} and {high!r} are the same number in {made.dtype}; move them apart.")
    return made


def _line(source: gymnasium.spaces.Box[Any], target: gymnasium.spaces.Box[Any]) -> ArrayMap:
    """The line through the bounds of two boxes, held to the bounds of the second.

    In float64, and in the form in which both bounds meet exactly; rounded where the target holds no floats.
    """
    bounds = tuple(np.asarray(bound, np.float64) for bound in (source.low, source.high, target.low, target.high))
    return partial(_move, bounds, target.dtype)


def _move(bounds: tuple[Any, ...], dtype: np.dtype[Any], values: Any) -> NDArray[Any]:
    start, end, low, high = bounds
    way = (values - start) / (end - start)
    moved: NDArray[Any] = np.clip(low * (1.0 - way) + high * way, low, high)
    return (moved if dtype.kind == "f" else np.rint(moved)).astype(dtype)


def _clip(low: NDArray[Any], high: NDArray[Any], values: Any) -> NDArray[Any]:
    clipped: NDArray[Any] = np.clip(values, low, high)
    return clipped


def _some_keys(keys: list[str], value: Any) -> dict[str, Any]:
    return {key: value[key] for key in keys}


def _some_places(places: list[int], value: Any) -> tuple[Any, ...]:
    return tuple(value[k] for k in places)


def _holds(kind: np.dtype[Any], box: gymnasium.spaces.Box[Any]) -> bool:
    if box.dtype.kind == "b":
        return True
    limits = np.iinfo(kind)
    return bool((box.low >= limits.min).all() and (box.high <= limits.max).all())
