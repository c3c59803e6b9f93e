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
}

for _id in CLASSIC_CONTROL:
    DEFAULT.add(EnvSpec.of(gymnasium.spec(_id)))
for _id, _arguments in OWN.items():
    DEFAULT.register(_id, **_arguments)
