"""The ids that come with sekai.

Entry points are strings: their modules are imported when an environment is first made. Classic control is
gymnasium's own, and so are its entries.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.registry import EnvSpec
from sekai.registry.store import DEFAULT

CLASSIC_CONTROL = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")

#: id -> arguments of `SafetyEnv`
SAFETY: dict[str, dict[str, Any]] = {
    "safety/DoubleIntegrator-v0": {"system": "DoubleIntegrator"},
    "safety/DoubleIntegratorTouch-v0": {"system": "DoubleIntegrator", "target": "touch"},
    "safety/DoubleIntegratorRest-v0": {"system": "DoubleIntegrator", "target": "rest"},
    "safety/DoubleIntegratorForce-v0": {"system": "DoubleIntegrator", "force_bound": 0.25},
    "safety/DoubleIntegratorDrift-v0": {"system": "DoubleIntegrator", "drift_bound": 0.25},
    "safety/LinearPendulum-v0": {"system": "LinearPendulum"},
    "safety/DubinsHighTurn-v0": {"system": "DubinsHighTurn"},
    "safety/DubinsLowTurn-v0": {"system": "DubinsLowTurn"},
    "safety/PointMass-v0": {"system": "PointMass"},
    "safety/DrawdownFloor-v0": {"system": "DrawdownFloor", "disturbance": "worst"},
    "safety/DrawdownFloorFixed-v0": {"system": "DrawdownFloor", "trailing": False, "disturbance": "worst"},
    "safety/DrawdownPortfolio-v0": {"system": "DrawdownPortfolio", "disturbance": "worst"},
    "safety/InventoryLimit-v0": {"system": "InventoryLimit", "disturbance": "worst"},
    "safety/BudgetExecution-v0": {"system": "BudgetExecution"},
    "safety/BudgetExecutionShock-v0": {"system": "BudgetExecution", "price_shock": 0.05, "disturbance": "worst"},
}

#: id -> arguments of `register`
OWN: dict[str, dict[str, Any]] = {
    "MarketMaking-v0": {
        "entry_point": "sekai.envs.finance.making:MarketMakingEnv",
        "vector_entry_point": "sekai.envs.finance.making:MarketMakingVecEnv",
    },
    "OptimalExecution-v0": {
        "entry_point": "sekai.envs.finance.execution:OptimalExecutionEnv",
        "vector_entry_point": "sekai.envs.finance.execution:OptimalExecutionVecEnv",
    },
    "Portfolio-v0": {
        "entry_point": "sekai.envs.finance.portfolio:PortfolioEnv",
        "vector_entry_point": "sekai.envs.finance.portfolio:PortfolioVecEnv",
    },
    "Trading-v0": {
        "entry_point": "sekai.envs.finance.trading:TradingEnv",
        "vector_entry_point": "sekai.envs.finance.trading:TradingVecEnv",
    },
    **{
        id: {
            "entry_point": "sekai.safety.envs:SafetyEnv",
            "vector_entry_point": "sekai.safety.envs:SafetyVecEnv",
            "kwargs": arguments,
        }
        for id, arguments in SAFETY.items()
    },
}

for _id in CLASSIC_CONTROL:
    DEFAULT.add(EnvSpec.of(gymnasium.spec(_id)))
for _id, _arguments in OWN.items():
    DEFAULT.register(_id, **_arguments)
