"""What went wrong, in one line."""

from __future__ import annotations

# import name -> the extra that brings it
EXTRAS = {
    "arch": "data",
    "bokeh": "lab",
    "matplotlib": "viz",
    "narwhals": "data",
    "panel": "lab",
    "param": "lab",
    "polars": "data",
    "pyarrow": "data",
    "pygame": "viz",
    "ray": "ray",
    "scipy": "lab",
    "skfolio": "data",
    "stable_baselines3": "safety",
    "torch": "safety",
    "yaml": "safety",
}


class BadValue(ValueError):
    """A value on the command line that cannot be used."""


def one_line(error: Exception) -> str:
    """The message of an error on one line, with its kind where the message alone would not say enough.

    An `ImportError` for a package of an extra ends with the command that installs it.
    """
    format_message = getattr(error, "format_message", None)  # errors of the command line parser
    # the first paragraph: an error from a worker process carries that process's traceback after it
    text = str(format_message() if callable(format_message) else error).strip().partition("\n\n")[0]
    text = " ".join(text.split())
    if not callable(format_message) and not _is_for_users(error):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, ImportError) and error.name is not None and "pip install" not in text:
        extra = EXTRAS.get(error.name.partition(".")[0])
        if extra is not None:
            text += f": pip install 'sekai-rl[{extra}]'"
    return text


def _is_for_users(error: Exception) -> bool:
    """Whether the message says enough without the name of the class."""
    from sekai.errors import SekaiError

    return isinstance(error, (SekaiError, ImportError, OSError, TypeError, ValueError))
