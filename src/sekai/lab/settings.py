"""`Settings`: the widgets of what is run, and the `Setup` that they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import panel as pn

from sekai.lab.setups import BACKENDS, COUNTING, ENVIRONMENTS, MODES, MOST_SLOTS, Setup

_T = TypeVar("_T")

OTHER = "another id"
TITLES = {
    COUNTING: "Counting steps",
    "Trading-v0": "Trading-v0 (S&P 500)",
    "OptimalExecution-v0": "OptimalExecution-v0",
}
ENDINGS = {
    "all three in turn": ("terminated", "truncated", "both"),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
    "both flags": ("both",),
}


class Settings:
    """Widgets that say what is run.

    Args:
        changed: called after every change.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        defaults = Setup()
        choices = {TITLES.get(id, id): id for id in ENVIRONMENTS} | {OTHER: OTHER}
        self.environment = pn.widgets.Select(label="Environment", options=choices, value=COUNTING)
        self.id = pn.widgets.TextInput(label="Id", placeholder="Acrobot-v1, or module:Id", visible=False)
        self.lengths = pn.widgets.TextInput(label="Episode lengths", value=", ".join(map(str, defaults.lengths)))
        self.endings = pn.widgets.Select(label="Episodes end", options=ENDINGS, value=defaults.endings)
        self.slots = pn.widgets.IntSlider(label="Slots", start=1, end=MOST_SLOTS, value=defaults.slots)
        self.backend = pn.widgets.Select(label="Backend", options=list(BACKENDS), value=defaults.backend)
        self.autoreset = pn.widgets.Select(label="Autoreset", options=list(MODES), value=defaults.autoreset)
        self.actions = pn.widgets.Select(label="Actions", options=["random", "constant"])
        self.action = pn.widgets.TextInput(label="Action", value="0", visible=False)
        self.seed = pn.widgets.TextInput(label="Seed", value=str(defaults.seed))
        self._changed = changed
        for widget in (self.id, self.lengths, self.endings, self.backend, self.autoreset, self.action, self.seed):
            widget.param.watch(self._on_change, "value")
        self.slots.param.watch(self._on_change, "value_throttled")
        for widget in (self.environment, self.actions):
            widget.param.watch(self._on_choice, "value")

    @property
    def layout(self) -> Any:
        """The widgets, as many beside each other as fit."""
        widgets = (self.environment, self.id, self.lengths, self.endings, self.slots, self.backend, self.autoreset,
                   self.actions, self.action, self.seed)  # fmt: skip
        for widget in widgets:
            widget.width, widget.margin = 168, (2, 6)
        return pn.FlexBox(*widgets, align_items="flex-start", sizing_mode="stretch_width")

    def setup(self) -> Setup:
        """What the widgets say.

        Raises:
            ValueError: a text that cannot be read, or a value out of range.
        """
        other = self.environment.value == OTHER
        return Setup(
            environment=self.id.value.strip() if other else self.environment.value,
            lengths=tuple(whole("episode lengths", part) for part in self.lengths.value.split(",")),
            endings=self.endings.value,
            slots=self.slots.value,
            backend=self.backend.value,
            autoreset=self.autoreset.value,
            action=_action(self.action.value) if self.actions.value == "constant" else None,
            seed=whole("seed", self.seed.value),
        )

    def _on_choice(self, event: Any) -> None:
        self.id.visible = self.environment.value == OTHER
        self.lengths.visible = self.endings.visible = self.environment.value == COUNTING
        self.action.visible = self.actions.value == "constant"
        if not (event.new == OTHER and not self.id.value):  # which one is still to be typed
            self._changed()

    def _on_change(self, event: Any) -> None:
        self._changed()


def whole(name: str, text: str) -> int:
    """A typed whole number.

    Raises:
        ValueError: it is none.
    """
    return _read(int, f"{name}: {text.strip()!r} is no whole number.", text)


def number(name: str, text: str) -> float:
    """A typed number.

    Raises:
        ValueError: it is none.
    """
    return _read(float, f"{name}: {text.strip()!r} is no number.", text)


def _read(kind: Callable[[str], _T], otherwise: str, text: str) -> _T:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(otherwise) from None


def _action(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"action: {text!r} is neither a number nor a list such as [0.5, 0.5].") from None
