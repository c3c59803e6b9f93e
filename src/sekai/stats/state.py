"""State of what keeps statistics: held to shapes when it is loaded, and standing still on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class Freezable:
    """What has running statistics that may stand still: `update_running_mean = False`, or `with x.freeze():`.

    Attributes:
        update_running_mean: whether statistics are updated outside `freeze`.
    """

    update_running_mean = True
    _frozen = 0

    @contextmanager
    def freeze(self) -> Iterator[Self]:
        """Statistics stand still inside this context, whatever runs in it; it may be entered again."""
        self._frozen += 1
        try:
            yield self
        finally:
            self._frozen -= 1

    @property
    def updating(self) -> bool:
        """Whether the statistics go on with what they see."""
        return self.update_running_mean and not self._frozen


def check_sums(
    state: Mapping[str, Any], like: Mapping[str, NDArray[Any]], gamma: float | None
) -> dict[str, NDArray[Any]]:
    """`check_state` for the sums of episodes under way, as the recorders keep them.

    Args:
        state: `return`, `length`, `discounted`, `discount` and `seconds`, one of each for every slot.
        like: those of the recorder.
        gamma: its discount, None for none.

    Raises:
        ValueError: it does not fit, or no episode can have these sums under this discount.
    """
    loaded = check_state(state, like, finite=False)
    length, discount, seconds = loaded["length"], loaded["discount"], loaded["seconds"]
    if not (length >= 0).all():
        raise ValueError(f"'length' of the state is {length.tolist()}; expected steps, at least 0.")
    if not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise ValueError(f"'seconds' of the state is {seconds.tolist()}; expected a time, finite and at least 0.")
    # multiplied up step by step, it is a power but for rounding
    if gamma is not None and not np.isclose(discount, np.power(gamma, length), rtol=1e-6, atol=1e-300).all():
        raise ValueError(
            f"'discount' of the state is {discount.tolist()} after {length.tolist()} steps; expected powers of "
            f"gamma={gamma}: it was saved by a recorder with another gamma, or with none."
        )
    return loaded


def check_state(
    state: Mapping[str, Any], like: Mapping[str, NDArray[Any]], *, finite: bool = True
) -> dict[str, NDArray[Any]]:
    """Copies of the arrays of a state, held to the keys, shapes and dtypes of another.

    Raises:
        ValueError: keys or shapes differ, a value does not cast, or with `finite` a number is not finite.
    """
    if not isinstance(state, Mapping) or state.keys() != like.keys():
        given = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"The state has {given}; expected the keys {sorted(like)}.")
    loaded = {}
    for name, known in like.items():
        value = np.asarray(state[name])
        if value.shape != known.shape or not np.can_cast(value.dtype, known.dtype, "same_kind"):
            raise ValueError(
                f"{name!r} of the state has shape {value.shape} and dtype {value.dtype}; expected {known.shape} and "
                f"{known.dtype}: it was saved around another environment."
            )
        with np.errstate(over="ignore"):
            loaded[name] = value.astype(known.dtype)
        if finite and known.dtype.kind == "f" and not np.isfinite(loaded[name]).all():
            raise ValueError(f"{name!r} of the state holds a number that is not finite.")
    return loaded
