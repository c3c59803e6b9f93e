"""Which sub-environment an exception came from: noted for people, and kept for code that needs the index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_SLOT = "__sekai_slot__"


def blame(error: BaseException, slot: int) -> None:
    """Note on `error` that sub-environment `slot` raised it, unless another is named already."""
    if blamed_slot(error) is None:
        setattr(error, _SLOT, slot)
        error.add_note(f"raised by sub-env {slot}")


def blamed_slot(error: BaseException) -> int | None:
    """The sub-environment that raised `error`, None when it is not known."""
    slot: int | None = vars(error).get(_SLOT)
    return slot


@contextmanager
def blaming(slot: int) -> Iterator[None]:
    """Blame `slot` for an exception in the block."""
    try:
        yield
    except Exception as error:
        blame(error, slot)
        raise


def raise_first(errors: dict[int, Exception], consequence: str = "") -> NoReturn:
    """Raise the error of the lowest slot, unchanged but for notes that name the slots.

    Args:
        errors: by slot, at least one.
        consequence: what follows for each of these slots.
    """
    error = errors[min(errors)]
    blame(error, min(errors))
    if len(errors) > 1 or consequence:
        error.add_note(f"failed sub-envs: {sorted(errors)}" + (f"; each {consequence}" if consequence else ""))
    raise error
