"""The lab: what every row of a vector environment is, cell by cell, and the counts of an independent model beside it.

The page is `sekai lab` (extra `lab`). What it shows can also be had without it: `Run`, `Comparison`, `Binomial`.
"""

from __future__ import annotations

from sekai.lab.comparison import Agreement, Comparison
from sekai.lab.counts import Binomial, Dispersion
from sekai.lab.exports import to_csv, to_script
from sekai.lab.players import Player
from sekai.lab.rows import LETTERS, Cell, Run
from sekai.lab.setups import Setup

__all__ = [
    "LETTERS",
    "Agreement",
    "Binomial",
    "Cell",
    "Comparison",
    "Dispersion",
    "Player",
    "Run",
    "Setup",
    "to_csv",
    "to_script",
]
