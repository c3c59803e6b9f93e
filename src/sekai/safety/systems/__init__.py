"""Systems with known answers: dynamics, margins and bounded sets of controls, for NumPy arrays and torch tensors."""

from sekai.safety.systems.base import System, as_state
from sekai.safety.systems.double_integrator import DoubleIntegrator
from sekai.safety.systems.dubins import DubinsCar, DubinsRadial
from sekai.safety.systems.pendulum import LinearPendulum
from sekai.safety.systems.point_mass import PointMass
from sekai.safety.systems.sets import BallSet, BoxSet

__all__ = [
    "BallSet",
    "BoxSet",
    "DoubleIntegrator",
    "DubinsCar",
    "DubinsRadial",
    "LinearPendulum",
    "PointMass",
    "System",
    "as_state",
]
