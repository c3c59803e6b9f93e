"""Arguments of learners, and what to write instead of one that there is not."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm


def require_known(cls: type[Any], given: Iterable[str]) -> None:
    """Refuse arguments that no constructor of a learner takes.

    Raises:
        TypeError: the first of them, with the closest name and all that there are.
    """
    known = known_options(cls)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            shown = ", ".join(sorted(option for option in known if not option.startswith("_")))
            raise TypeError(f"{cls.__name__} takes no option {name!r}.{hint} It takes: {shown}.")


def known_options(cls: type[Any]) -> set[str]:
    """What a learner takes after policy and environment: its own, and what the SB3 class takes that it derives from."""
    known: set[str] = set()
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        known |= {part.name for part in parameters if part.kind in (part.KEYWORD_ONLY, part.POSITIONAL_OR_KEYWORD)}
        if issubclass(base, BaseAlgorithm) and all(part.kind is not part.VAR_KEYWORD for part in parameters):
            break  # it hands nothing on that it does not name
    return known - {"self", "policy", "env"}
