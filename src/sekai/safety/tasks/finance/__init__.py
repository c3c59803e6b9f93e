"""Tasks of trading with exact sets, each against the worst of bounded shocks, and a floor under `Portfolio-v0`.

DrawdownFloor      one exposure that takes time to change, above a trailing or a fixed floor
DrawdownPortfolio  several assets and costs, likewise
InventoryLimit     a market maker with a limit on inventory and a floor under equity
BudgetExecution    an order to be filled before a deadline, within a budget and under a cap
"""

from sekai.safety.tasks.finance.drawdown import DrawdownFloor, exposure_bound, unwound
from sekai.safety.tasks.finance.execution import BudgetExecution, cheapest_pace, even_pace, least_cost
from sekai.safety.tasks.finance.guard import (
    FloorPortfolio,
    FloorRows,
    SoldAtWorst,
    TowardsCash,
    floor_portfolios,
    portfolio_shield,
)
from sekai.safety.tasks.finance.inventory import InventoryLimit, quote_bound, way_out
from sekai.safety.tasks.finance.portfolio import DrawdownPortfolio, weights_hold

__all__ = [
    "BudgetExecution",
    "DrawdownFloor",
    "DrawdownPortfolio",
    "FloorPortfolio",
    "FloorRows",
    "InventoryLimit",
    "SoldAtWorst",
    "TowardsCash",
    "cheapest_pace",
    "even_pace",
    "exposure_bound",
    "floor_portfolios",
    "least_cost",
    "portfolio_shield",
    "quote_bound",
    "unwound",
    "way_out",
    "weights_hold",
]
