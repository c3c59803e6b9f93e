"""`Playing`: Reset, Step and Play as three buttons and a speed, for both panels and their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn

SPEEDS = {"1 a second": 1, "2 a second": 2, "5 a second": 5, "10 a second": 10}


class Playing:
    """The buttons of a panel.

    Args:
        reset, step: what they do.
        ready: whether a step of Play may be taken now; else it is left out.
    """

    def __init__(self, reset: Callable[[], None], step: Callable[[], None], ready: Callable[[], bool]) -> None:
        self._reset, self._step, self._ready = reset, step, ready
        self.reset_button = pn.widgets.Button(label="Reset")
        self.step_button = pn.widgets.Button(label="Step", color="primary")
        self.play_button = pn.widgets.Button(label="Play")
        self.speed = pn.widgets.Select(label="Speed", options=SPEEDS, value=5)
        self._timer = pn.state.add_periodic_callback(self._tick, period=self._period, start=False)
        self.reset_button.on_click(lambda event: self.reset())
        self.step_button.on_click(lambda event: self.step())
        self.play_button.on_click(lambda event: self.play())
        self.speed.param.watch(self._on_speed, "value")

    @property
    def layout(self) -> Any:
        """The buttons and the keys that do the same."""
        for button in (self.reset_button, self.step_button, self.play_button):
            button.width, button.margin = 76, (20, 4, 4, 4)
        self.speed.width, self.speed.margin = 112, (0, 4, 4, 4)
        keys = pn.pane.HTML('<p class="keys">Keys in this panel: R reset, S step, P play or pause</p>', margin=(0, 6))
        return pn.Column(
            pn.FlexBox(self.reset_button, self.step_button, self.play_button, self.speed, align_items="flex-end"),
            keys,
            sizing_mode="stretch_width",
        )

    @property
    def playing(self) -> bool:
        """Whether Play is on."""
        return bool(self._timer.running)

    def key(self, key: str) -> None:
        """Do what a key stands for."""
        {"r": self.reset, "s": self.step, "p": self.play}[key]()

    def reset(self) -> None:
        """Stop, and begin anew."""
        self.stop()
        self._reset()

    def step(self) -> None:
        """Stop, and take one step."""
        self.stop()
        self._step()

    def play(self) -> None:
        """Begin to play, or pause."""
        if self.playing:
            self.stop()
        else:
            self._timer.start()
            self.play_button.label = "Pause"

    def stop(self) -> None:
        """Pause."""
        if self.playing:
            self._timer.stop()
            self.play_button.label = "Play"

    @property
    def _period(self) -> int:
        return 1000 // int(self.speed.value)

    def _on_speed(self, event: Any) -> None:
        self._timer.period = self._period

    def _tick(self) -> None:
        if self._ready():
            self._step()
