"""Draws the timelines of the manual from a real run: two slots through six calls, in each autoreset mode.

    .venv/bin/python tools/manual/timelines.py        writes docs/assets/timeline-MODE-SCHEME.svg

Slot 0 terminates at its second step and slot 1 is truncated at its third; an observation is the number of steps since
the episode began. A row that is no transition has a dashed frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai import RowKind

ASSETS = Path(__file__).resolve().parents[2] / "docs" / "assets"
MODES = ("same_step", "next_step", "disabled")
CALLS = 6
#: colours that stay apart for the colour-blind, each with black on it; a letter says the same
FILLS = {"STEP": "#9ccdf0", "TERMINATED": "#f2a65a", "TRUNCATED": "#f5e18a", "RESET": "#e8e8e8", "FROZEN": "#e8e8e8"}
LETTERS = {"STEP": "S", "TERMINATED": "T", "TRUNCATED": "U", "RESET": "R", "FROZEN": "F"}
INKS = {"light": "#24292f", "dark": "#d5d9e0"}
LEFT, TOP, SIZE, PITCH = 52, 26, 54, 58


class Count(sekai.Env):
    """Counts its steps; ends after `length` of them, in the way `end` says."""

    def __init__(self, length: int, end: str) -> None:
        self.observation_space = sekai.Box(0.0, 10.0, shape=(1,))
        self.action_space = sekai.Discrete(2)
        self.length, self.end, self.t = length, end, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        return sekai.ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        ends = self.t == self.length
        flags = ends and self.end == "terminated", ends and self.end == "truncated"
        return sekai.StepResult(np.full(1, self.t, np.float32), 1.0, *flags, {})


@dataclass(frozen=True)
class Cell:
    """One row of a result: its kind, its observation, and the last observation of an episode where infos have it."""

    kind: str
    observation: int
    final: int | None


def run(mode: str) -> list[list[Cell]]:
    """The cells of every call, a list of slots each."""
    factories = [lambda: Count(2, "terminated"), lambda: Count(3, "truncated")]
    calls = []
    with sekai.SyncVecEnv(factories, autoreset=mode) as vec:
        vec.reset(seed=0)
        for _ in range(CALLS):
            result = vec.step([0, 0])
            calls.append([cell(result, slot) for slot in range(2)])
    return calls


def cell(result: Any, slot: int) -> Cell:
    final = result.infos[slot].get("final_observation")
    kind, observation = RowKind(result.kind[slot]).name, int(result.observations[slot, 0])
    return Cell(kind, observation, None if final is None else int(final[0]))


def draw(calls: list[list[Cell]], ink: str) -> str:
    """The picture as SVG text: calls from left to right, slots below each other."""
    width, height = LEFT + len(calls) * PITCH + 2, TOP + len(calls[0]) * PITCH
    body = [text(LEFT - 8, 17, "call", ink, anchor="end")]
    body += [text(LEFT + (k + 0.5) * PITCH - 2, 17, str(k + 1), ink) for k in range(len(calls))]
    for slot in range(len(calls[0])):
        body.append(text(LEFT - 8, TOP + (slot + 0.5) * PITCH + 2, f"slot {slot}", ink, anchor="end"))
    for k, cells in enumerate(calls):
        for slot, one in enumerate(cells):
            body += square(one, LEFT + k * PITCH, TOP + slot * PITCH)
    lines = "\n".join(f"  {line}" for line in body)
    style = 'font-family="system-ui, sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>\n{lines}\n</svg>\n'


def square(one: Cell, x: float, y: float) -> Iterator[str]:
    valid = one.kind in {"STEP", "TERMINATED", "TRUNCATED"}
    frame = 'stroke="#1f2328"' if valid else 'stroke="#767676" stroke-width="2" stroke-dasharray="5 4"'
    yield f'<rect x="{x + 1}" y="{y + 1}" width="{SIZE}" height="{SIZE}" rx="5" fill="{FILLS[one.kind]}" {frame}/>'
    middle = x + 1 + SIZE / 2
    yield text(middle, y + 21, LETTERS[one.kind], "#000000", weight="bold")
    yield text(middle, y + 36, f"obs {one.observation}", "#000000", size=12)
    if one.final is not None:
        yield text(middle, y + 50, f"final {one.final}", "#000000", size=12)


def text(x: float, y: float, words: str, ink: str, *, anchor: str = "middle", size: int = 13, weight: str = "") -> str:
    extra = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{ink}" text-anchor="{anchor}" font-size="{size}"{extra}>{words}</text>'


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    return {f"timeline-{mode}-{scheme}.svg": draw(run(mode), ink) for mode in MODES for scheme, ink in INKS.items()}


if __name__ == "__main__":
    for name, drawn in pictures().items():
        (ASSETS / name).write_text(drawn, encoding="utf-8")
