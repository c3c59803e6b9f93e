"""`CountsPanel`: the independent binary model, outcome by outcome, and beside it what the real run did."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import panel as pn

from sekai.lab.counts import DEFAULT_N, DEFAULT_P, MOST, Binomial, Dispersion
from sekai.lab.parts import Bars, message, table
from sekai.lab.playing import Playing
from sekai.lab.settings import number, whole
from sekai.lab.stage import Picture
from sekai.lab.texts import NOT_INDEPENDENT

INTRODUCTION = (
    '<p class="hint">A model, not a run: each of n slots yields a useful transition with probability p, independently. '
    "Predict the mean number of slots that do, then Step or Play through the outcomes.</p>"
)
NOT_YET = "predict it, then press Step or Play"


class CountsPanel:
    """The panel on the right."""

    def __init__(self) -> None:
        self._model = Binomial()
        self._at = -1  # the outcome that is marked; -1 before the first
        self._shown = False  # whether the mean has been given away
        self._moving = False  # the other of two widgets of one number follows the first
        self._valid_counts, self._slots = np.zeros(0, np.int64), 0
        self.n = pn.widgets.TextInput(label="Slots n", width=100, margin=(2, 6))
        self.n_slider = pn.widgets.IntSlider(label="n", start=1, end=MOST, width=150, margin=(2, 6))
        self.p = pn.widgets.TextInput(label="Probability p", width=100, margin=(2, 6))
        self.p_slider = pn.widgets.FloatSlider(label="p", start=0.0, end=1.0, step=0.01, width=150, margin=(2, 6))
        self.prediction = pn.widgets.TextInput(label="Your prediction of the mean", width=200, margin=(2, 6))
        self.playing = Playing(self.reset, self._step, lambda: True)
        self._message = pn.pane.HTML(sizing_mode="stretch_width", margin=(4, 6))
        self._bars = Bars(sizing_mode="stretch_width", margin=(4, 6))
        self._numbers = pn.pane.HTML(margin=(0, 6), sizing_mode="stretch_width")
        self.real = pn.widgets.Toggle(label="Counts of the real run", width=220, margin=(8, 6))
        self._real_bars = Bars(sizing_mode="stretch_width", margin=(4, 6), visible=False)
        self._real_numbers = pn.pane.HTML(margin=(0, 6), sizing_mode="stretch_width")
        for widget in (self.n, self.p):
            widget.param.watch(self._on_typed, "value")
        for slider in (self.n_slider, self.p_slider):
            slider.param.watch(self._on_slid, "value_throttled")
        self.prediction.param.watch(self._on_prediction, "value")
        self.real.param.watch(lambda event: self._draw_real(), "value")
        self.reset()

    @property
    def layout(self) -> Any:
        """All of it."""
        return pn.Column(
            pn.pane.HTML(INTRODUCTION, sizing_mode="stretch_width", margin=(0, 6)),
            pn.FlexBox(self.n, self.n_slider, align_items="flex-end"),
            pn.FlexBox(self.p, self.p_slider, align_items="flex-end"),
            self.prediction,
            self.playing.layout,
            self._message,
            self._bars,
            self._numbers,
            self.real,
            self._real_bars,
            self._real_numbers,
            sizing_mode="stretch_width",
        )

    def reset(self) -> None:
        """The defaults, before any outcome and any prediction."""
        self._moving = True
        self.prediction.value = ""
        self._moving = False
        self._shown = False
        self._take(Binomial(DEFAULT_N, DEFAULT_P))

    def follow(self, picture: Picture) -> None:
        """Take note of what the real run has done."""
        self._valid_counts, self._slots = picture.valid_counts, picture.setup.slots
        if self.real.value:
            self._draw_real()

    def _take(self, model: Binomial) -> None:
        """Go on with another model, from before its first outcome."""
        self.playing.stop()
        self._model, self._at = model, -1
        self._moving = True
        self.n.value, self.p.value = str(model.n), f"{model.p:.15g}"
        self.n_slider.value, self.p_slider.value = model.n, model.p
        self._moving = False
        self._message.object = ""
        self._draw()

    def _on_typed(self, event: Any) -> None:
        if self._moving:
            return
        try:
            model = Binomial(whole("n", self.n.value), number("p", self.p.value))
        except (ValueError, TypeError) as error:
            self.playing.stop()
            shown = f"What is shown is n = {self._model.n}, p = {self._model.p:.6g}."
            self._message.object = message(f"{error} {shown}")
            return
        self._take(model)

    def _on_slid(self, event: Any) -> None:
        if not self._moving:
            n = event.new if event.obj is self.n_slider else self._model.n
            p = event.new if event.obj is self.p_slider else self._model.p
            self._take(Binomial(int(n), round(float(p), 10)))

    def _on_prediction(self, event: Any) -> None:
        if self._moving:
            return
        text = self.prediction.value.strip()
        try:
            given = number("prediction", text) if text else None
        except ValueError as error:
            self._message.object = message(str(error))
            return
        self._message.object = ""
        self._shown = self._shown or given is not None
        self._draw()

    def _step(self) -> None:
        """The next outcome; Play ends with the last one."""
        self._shown = True
        if self._at >= self._model.n:
            self.playing.stop()
            return
        self._at += 1
        if self._at == self._model.n:
            self.playing.stop()
        self._draw()

    def _draw(self) -> None:
        model = self._model
        self._bars.data = {
            "series": [{"name": "P(K = k), k =", "values": model.probabilities.tolist()}],
            "running": model.running.tolist(),
            "current": self._at,
            "title": f"binomial probabilities of 0 to {model.n} slots at p = {model.p:.6g}",
            "table": True,
        }
        k = self._at
        walked = [
            ("outcome", "outcome k", str(k) if k >= 0 else "before the first"),
            ("probability", "P(K = k)", f"{model.probabilities[k]:.6g}" if k >= 0 else ""),
            ("running", "running sum P(K ≤ k)", f"{model.running[k]:.6g}" if k >= 0 else ""),
        ]
        mean, deviation = (f"{model.mean:.10g}", f"{model.deviation:.6g}") if self._shown else (NOT_YET, NOT_YET)
        said = [("mean", "mean n p", mean), ("deviation", "standard deviation", deviation)]
        self._numbers.object = table([*walked, *said, *self._predicted()], "numbers")

    def _predicted(self) -> list[tuple[str, str, str]]:
        text = self.prediction.value.strip()
        try:
            given = number("prediction", text)
        except ValueError:
            return []
        off = given - self._model.mean
        verdict = "exactly the mean" if abs(off) < 1e-9 else f"{abs(off):.6g} too {'high' if off > 0 else 'low'}"
        return [("predicted", "you predicted", f"{given:.10g}: {verdict}")]

    def _draw_real(self) -> None:
        wanted = bool(self.real.value)
        has_calls = len(self._valid_counts) > 0
        self._real_bars.visible = wanted and has_calls
        if not wanted or not has_calls:
            self._real_numbers.object = '<p class="hint">The run has no calls yet; step it.</p>' if wanted else ""
            return
        real = Dispersion.of(self._valid_counts, self._slots)
        model = Binomial(real.slots, real.share)
        self._real_bars.data = {
            "series": [
                {
                    "name": "share of calls with k valid slots, k =",
                    "values": (real.counts / real.counts.sum()).tolist(),
                },
                {"name": "binomial of the same mean, k =", "values": model.probabilities.tolist()},
            ],
            "current": -1,
            "title": f"valid slots in {len(self._valid_counts)} calls of the run, beside the binomial model",
            "table": False,
        }
        ratio = "none: every row is a transition" if real.ratio is None else f"{real.ratio:.6g}"
        rows = [
            ("real_calls", "calls", str(len(self._valid_counts))),
            ("real_mean", "mean of valid slots", f"{real.mean:.6g} of {real.slots}"),
            ("real_deviation", "standard deviation, measured", f"{real.deviation:.6g}"),
            ("binomial_deviation", "standard deviation, binomial", f"{real.binomial_deviation:.6g}"),
            ("real_ratio", "variance over the binomial one", ratio),
        ]
        self._real_numbers.object = table(rows, "numbers") + f'<p class="hint">{escape(NOT_INDEPENDENT)}</p>'
