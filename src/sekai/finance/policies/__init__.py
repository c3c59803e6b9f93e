"""Baseline policies for the finance environments, single and vector alike: rules with known answers."""

from __future__ import annotations

from sekai.finance.policies.base import Policy
from sekai.finance.policies.execution import TWAP, AlmgrenChriss, Immediate, Schedule
from sekai.finance.policies.making import GLFT, AvellanedaStoikov, CarteaJaimungal, FixedSpread
from sekai.finance.policies.portfolio import (
    BuyAndHoldWeights,
    EqualWeight,
    FixedWeights,
    Kelly,
    MinimumVariance,
    NoTradeBand,
)
from sekai.finance.policies.trading import CPPI, BuyAndHold, ConstantExposure, Momentum

__all__ = [
    "CPPI",
    "GLFT",
    "TWAP",
    "AlmgrenChriss",
    "AvellanedaStoikov",
    "BuyAndHold",
    "BuyAndHoldWeights",
    "CarteaJaimungal",
    "ConstantExposure",
    "EqualWeight",
    "FixedSpread",
    "FixedWeights",
    "Immediate",
    "Kelly",
    "MinimumVariance",
    "Momentum",
    "NoTradeBand",
    "Policy",
    "Schedule",
]
