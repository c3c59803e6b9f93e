"""Price models: simulated markets behind one interface. `base` has the contract."""

from __future__ import annotations

from sekai.finance.models.base import PriceModel, ShockModel
from sekai.finance.models.bootstrap import StationaryBootstrap
from sekai.finance.models.gbm import GeometricBrownianMotion
from sekai.finance.models.heston import Heston
from sekai.finance.models.jumps import MertonJumps
from sekai.finance.models.ou import OrnsteinUhlenbeck
from sekai.finance.models.regime import RegimeSwitching

__all__ = [
    "GeometricBrownianMotion",
    "Heston",
    "MertonJumps",
    "OrnsteinUhlenbeck",
    "PriceModel",
    "RegimeSwitching",
    "ShockModel",
    "StationaryBootstrap",
]
