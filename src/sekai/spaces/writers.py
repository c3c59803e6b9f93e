"""`row_writer`: a function that copies one sample into one row of a batch, made for its space.

The writer of each leaf has a short path for the value it expects (an array of the right shape and dtype,
a scalar of the right dtype) and a long one that converts or refuses. Nothing is broadcast, and no integer
wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Literal, NoReturn

import gymnasium.spaces
import numpy as np
from numpy.typing import NDArray

from sekai.errors import InvalidAction, InvalidObservation
from sekai.spaces.batch import FIXED_SIZE
from sekai.spaces.composite import AnySpace
from sekai.spaces.rows import empty_batch, finish_batch, iterate, read_row

RowWriter = Callable[[Any, int, Any], None]
What = Literal["observation", "action"]


def row_writer(space: AnySpace, *, what: What = "observation", first: int = 0) -> RowWriter:
    """A function `(batch, i, value)` that copies `value`, a sample of `space`, into row `i` of `batch`.

    Accepted are arrays, lists, Python and NumPy scalars of the space's shape, in a dtype that casts to
    the space's by NumPy's `same_kind` rule; Python integers also to unsigned dtypes. NaN passes. Values
    are not held to the bounds of the space. A refused value may leave other parts of its row written.

    Args:
        space: the single space.
        what: what the errors call the value; `"action"` makes them `InvalidAction`.
        first: index of the sub-environment in row 0; the errors count from it.

    Raises:
        InvalidObservation: by the writer: wrong shape or dtype, an integer the dtype cannot hold, missing or
            extra keys of a Dict, wrong length of a Tuple. The message names the sub-environment and place.
    """
    error = InvalidObservation if what == "observation" else InvalidAction
    return _writer(space, _Refusal(error, lambda i: f"sub-env {first + i}: {what}"))


def write_row(space: AnySpace, batch: Any, i: int, value: Any, *, what: What = "observation") -> None:
    """Copy `value`, a sample of `space`, into row `i` of `batch`.

    In a loop build `row_writer(space)` once: it is this function with the look-up of the space done.

    Raises:
        InvalidObservation: the value does not fit, see `row_writer`; `InvalidAction` for `what="action"`.
    """
    row_writer(space, what=what)(batch, i, value)


def concatenate(space: AnySpace, items: Iterable[Any], *, what: What = "observation") -> Any:
    """The batch of `items`, samples of `space`, in order.

    Raises:
        InvalidObservation: an item does not fit, see `row_writer`; `InvalidAction` for `what="action"`.
    """
    samples = list(items)
    batch = empty_batch(space, len(samples))
    write = row_writer(space, what=what)
    for i, sample in enumerate(samples):
        write(batch, i, sample)
    return finish_batch(space, batch)


class OneRow:
    """A batch of one row, written anew by every call.

    Args:
        space: the single space.
        what: what the errors call a sample, as for `row_writer`.
    """

    def __init__(self, space: AnySpace, *, what: What = "observation") -> None:
        self._space, self._what = space, what
        self._batch = empty_batch(space, 1)
        self._write = row_writer(space, what=what)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(OneRow, what=self._what), (self._space,)

    def __call__(self, sample: Any) -> Any:
        """The sample as a batch of one, which the next call overwrites.

        Raises:
            InvalidObservation: it does not fit, see `row_writer`; `InvalidAction` for `what="action"`.
        """
        self._write(self._batch, 0, sample)
        return finish_batch(self._space, self._batch)


class _Refusal:
    """Raises the errors for one place inside one space.

    Args:
        error: the class to raise.
        root: names the row with the given index, e.g. "sub-env 2: observation".
        place: the steps from there, e.g. "['camera'][0]".
    """

    def __init__(self, error: type[ValueError], root: Callable[[int], str], place: str = "") -> None:
        self.error = error
        self.root = root
        self.place = place

    def below(self, step: str) -> _Refusal:
        return _Refusal(self.error, self.root, self.place + step)

    def items_of(self, i: int) -> _Refusal:
        """For the items of the sequence in row `i`: their writer is called with the index of an item."""
        sequence = self.root(i) + self.place
        return _Refusal(self.error, lambda item: f"{sequence}[{item}]")

    def __call__(self, i: int, expected: str, given: str) -> NoReturn:
        raise self.error(f"{self.root(i)}{self.place} must {expected}, got {given}.")


def _writer(space: AnySpace, refuse: _Refusal) -> RowWriter:
    if isinstance(space, gymnasium.spaces.Dict):
        return _dict_writer(space, refuse)
    if isinstance(space, gymnasium.spaces.Tuple):
        return _tuple_writer(space, refuse)
    if isinstance(space, gymnasium.spaces.Discrete):
        return _scalar_writer(space, refuse)
    if isinstance(space, FIXED_SIZE):
        return _array_writer(space, refuse)
    if isinstance(space, gymnasium.spaces.Sequence):
        return _sequence_writer(space, refuse)

    def write_copy(batch: Any, i: int, value: Any) -> None:
        batch[i] = deepcopy(value)

    return write_copy


def _array_writer(space: AnySpace, refuse: _Refusal) -> RowWriter:
    shape, dtype = _layout(space)
    convert = _converter(shape, dtype, refuse)
    ndarray = np.ndarray

    def write_array(batch: Any, i: int, value: Any) -> None:
        if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
            batch[i] = value
        else:
            batch[i] = convert(value, i)

    return write_array


def _scalar_writer(space: AnySpace, refuse: _Refusal) -> RowWriter:
    shape, dtype = _layout(space)
    convert = _converter(shape, dtype, refuse)
    scalar, limits = dtype.type, np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)

    def write_scalar(batch: Any, i: int, value: Any) -> None:
        kind = type(value)
        if kind is scalar or (kind is int and low <= value <= high):
            batch[i] = value
        else:
            batch[i] = convert(value, i)

    return write_scalar


def _dict_writer(space: gymnasium.spaces.Dict[Any], refuse: _Refusal) -> RowWriter:
    writers = [(key, _writer(part, refuse.below(f"[{key!r}]"))) for key, part in space.spaces.items()]
    keys = space.spaces.keys()

    def write_dict(batch: Any, i: int, value: Any) -> None:
        if type(value) is not dict and not isinstance(value, Mapping):
            refuse(i, f"be a dict with the keys {list(keys)}", f"{value!r} ({type(value).__name__})")
        if value.keys() != keys:
            missing = [key for key in keys if key not in value]
            extra = [key for key in value if key not in keys]
            refuse(i, f"have the keys {list(keys)}", f"missing {missing}, extra {extra}")
        for key, write in writers:
            write(batch[key], i, value[key])

    return write_dict


def _tuple_writer(space: gymnasium.spaces.Tuple[Any], refuse: _Refusal) -> RowWriter:
    writers = [_writer(part, refuse.below(f"[{k}]")) for k, part in enumerate(space.spaces)]

    def write_tuple(batch: Any, i: int, value: Any) -> None:
        if not isinstance(value, (tuple, list)):
            refuse(i, f"be a tuple of length {len(writers)}", f"{value!r} ({type(value).__name__})")
        if len(value) != len(writers):
            refuse(i, f"be a tuple of length {len(writers)}", f"length {len(value)}")
        for write, rows, part in zip(writers, batch, value, strict=True):
            write(rows, i, part)

    return write_tuple


def _sequence_writer(space: gymnasium.spaces.Sequence, refuse: _Refusal) -> RowWriter:
    feature = space.feature_space

    def write_sequence(batch: Any, i: int, value: Any) -> None:
        if not space.stack and not isinstance(value, (tuple, list)):
            refuse(i, "be a tuple", f"{value!r} ({type(value).__name__})")
        items = list(iterate(feature, value)) if space.stack else value
        rows = empty_batch(feature, len(items))
        write_item = _writer(feature, refuse.items_of(i))
        for k, item in enumerate(items):
            write_item(rows, k, item)
        rows = finish_batch(feature, rows)
        batch[i] = rows if space.stack else tuple(read_row(feature, rows, k) for k in range(len(items)))

    return write_sequence


def _layout(space: AnySpace) -> tuple[tuple[int, ...], np.dtype[Any]]:
    assert space.shape is not None and space.dtype is not None  # true of the four leaf classes
    return space.shape, space.dtype


def _converter(shape: tuple[int, ...], dtype: np.dtype[Any], refuse: _Refusal) -> Callable[[Any, int], NDArray[Any]]:
    """The long path: a function `(value, i)` that gives an array NumPy may assign to row `i`, or raises."""
    expected = f"have shape {shape} and a dtype that casts to {dtype}"
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None

    def convert(value: Any, i: int) -> NDArray[Any]:
        try:
            array = np.asarray(value)
        except ValueError:
            refuse(i, expected, f"{value!r}, which is no regular array")
        if array.shape != shape:
            refuse(i, expected, f"shape {array.shape} and dtype {array.dtype}")
        integers = limits is not None and array.dtype.kind in "iu"
        # A Python integer has no signedness of its own: whether it fits is decided by its value, below.
        python_integers = integers and not hasattr(value, "dtype")
        if not (python_integers or np.can_cast(array.dtype, dtype, "same_kind")):
            refuse(i, expected, f"shape {array.shape} and dtype {array.dtype}")
        if limits is not None and integers and array.dtype != dtype and array.size:
            for number in (array.min(), array.max()):
                if not limits.min <= int(number) <= limits.max:
                    refuse(i, f"hold integers from {limits.min} to {limits.max} ({dtype})", str(number))
        return array

    return convert
