"""What a picture of an episode is made from, and how it becomes a frame.

A `Recorder` exists where `render_mode` is set. It keeps a row of some of the infos for each step, and reads nothing
else, so that rendering changes nothing. matplotlib is imported at the first frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.errors import ResetRequired

RENDER_MODES = ["rgb_array"]
RENDER_FPS = 10
SIZE, DPI = (9.0, 6.75), 80  # a frame of 540 rows of 720 pixels

#: Columns of an episode by name, `(T + 1, ...)`, the start first. Where the market has a past, `past` holds the log
#: returns that led to the start, `(lookback, ...)`, oldest first.
Rows = dict[str, NDArray[Any]]


class Picture(NamedTuple):
    """What is drawn of an environment.

    Attributes:
        levels: keys of the infos that describe a state, each with the name of the attribute that has the same.
        flows: keys that describe a step; 0 at the start.
        draw: function of `(figure, rows, env)`.
    """

    levels: Mapping[str, str]
    flows: tuple[str, ...]
    draw: Callable[[Any, Rows, Any], None]


def check_render_mode(mode: Any) -> str | None:
    """The mode, if it is one.

    Raises:
        ValueError: it is none.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render_mode is {mode!r}; expected {', '.join(map(repr, RENDER_MODES))}, or None.")
    return None if mode is None else str(mode)


class Recorder:
    """The rows of the current episode of each slot.

    Args:
        picture: what is kept of the infos.
        num_envs: number of slots.
    """

    def __init__(self, picture: Picture, num_envs: int) -> None:
        self._picture = picture
        self._names = (*picture.levels, *picture.flows)
        self._rows: list[list[tuple[Any, ...]]] = [[] for _ in range(num_envs)]
        self._past: list[NDArray[np.float32] | None] = [None] * num_envs

    def begin(
        self, infos: Mapping[str, Any], slots: Sequence[int] | None = None, *, past: NDArray[np.float32] | None = None
    ) -> None:
        """Begin episodes.

        Args:
            infos: of the reset, an entry for each of the slots; values alone if `slots` is None.
            slots: which; None for the one of a single environment.
            past: of each of the slots, see `Rows`; None where the market has none.
        """
        for place, slot in enumerate([0] if slots is None else slots):
            self._rows[slot], self._past[slot] = [], None if past is None else past[place]
            self._append(slot, infos, None if slots is None else place)

    def add(self, infos: Mapping[str, Any], slots: Sequence[int] | None = None) -> None:
        """Append a row: of the single environment, or of `slots` from infos with an entry for every slot."""
        for slot in [0] if slots is None else slots:
            self._append(slot, infos, None if slots is None else slot)

    def restore(self, env: Any, started: NDArray[np.bool_], past: NDArray[np.float32] | None) -> None:
        """Begin anew in the state that an environment has been given.

        Args:
            env: single or native.
            started: whether a slot has an episode, bool `(N,)`.
            past: of each of those that have, see `Rows`; None where the market has none.
        """
        many = len(started) > 1 or np.ndim(getattr(env, next(iter(self._picture.levels.values())))) > 0
        levels = {key: np.asarray(getattr(env, name)) for key, name in self._picture.levels.items()}
        self._rows, self._past = [[] for _ in started], [None] * len(started)
        for place, slot in enumerate(np.flatnonzero(started).tolist()):
            state = {key: values[slot] if many else values[()] for key, values in levels.items()}
            self._append(slot, {**state, **dict.fromkeys(self._picture.flows, 0.0)}, None)
            self._past[slot] = None if past is None else past[place]

    def frame(self, slot: int, env: Any) -> NDArray[np.uint8]:
        """The picture of a slot, uint8 `(H, W, 3)`; see `figure`."""
        return pixels(self.figure(slot, env))

    def figure(self, slot: int, env: Any) -> Any:
        """The picture of a slot as a figure of matplotlib.

        Args:
            slot: which.
            env: the single environment, or the template of a native one.

        Raises:
            ResetRequired: its first episode has not begun.
            ImportError: matplotlib is not installed.
        """
        if not self._rows[slot]:
            raise ResetRequired("There is nothing to draw before the first episode: call reset() before render().")
        columns = (_column(values) for values in zip(*self._rows[slot], strict=True))
        rows = dict(zip(self._names, columns, strict=True))
        past = self._past[slot]
        figure = _new_figure()
        self._picture.draw(figure, rows if past is None else {**rows, "past": past}, env)
        return figure

    def _append(self, slot: int, infos: Mapping[str, Any], place: int | None) -> None:
        values = [infos[name] for name in self._names]
        self._rows[slot].append(tuple(values if place is None else [column[place] for column in values]))


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Values of a key one below the other; the 0 of a restored state stands for as many as the key has."""
    shape = np.shape(values[-1])
    return np.array([value if np.shape(value) == shape else np.broadcast_to(value, shape) for value in values])


def _new_figure() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Rendering needs the package 'matplotlib', which is not installed: pip install 'sekai-rl[viz]'",
            name="matplotlib",
        ) from error
    figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def pixels(figure: Any) -> NDArray[np.uint8]:
    """A figure as pixels, uint8 `(H, W, 3)`."""
    figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba())[..., :3].copy()
