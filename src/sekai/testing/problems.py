"""What a check found: `Problem`, and the list that collects each kind once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with an environment; its text is one line."""

    rule: str
    """Which check, e.g. `"observation space"`."""
    seen: str
    """What was seen."""
    step: int | None
    """After how many steps of the check, 0 at the first reset; None where no step is to blame."""
    fix: str
    """What to do about it."""
    severity: Severity = "error"
    """A warning may be on purpose."""

    def __str__(self) -> str:
        when = "" if self.step is None else f" at step {self.step}"
        return f"{self.severity}: {self.rule}{when}: {self.seen} {self.fix}"


class Problems:
    """Collects problems: of each rule the first, since the same mistake is made at every step.

    Attributes:
        found: in the order in which they were met.
        step: steps taken so far; the problems that follow are said to be met there.
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.step: int | None = None

    def has(self, rule: str) -> bool:
        """Whether a problem of this rule is known."""
        return any(problem.rule == rule for problem in self.found)

    def add(self, rule: str, seen: str, fix: str, severity: Severity = "error") -> None:
        """Note a problem, unless one of this rule is known."""
        if not self.has(rule):
            self.found.append(Problem(rule=rule, seen=seen, step=self.step, fix=fix, severity=severity))
