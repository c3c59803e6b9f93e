"""Two tasks of trading with exact sets: a drawdown floor under clipped shocks, and an order with a budget."""

from sekai.safety.tasks.finance.drawdown import DrawdownFloor, exposure_bound, unwound
from sekai.safety.tasks.finance.execution import BudgetExecution, cheapest_pace, even_pace, least_cost
from sekai.safety.tasks.finance.guard import FloorPortfolio, FloorRows, SoldAtWorst, floor_portfolios, portfolio_shield
from sekai.safety.tasks.finance.portfolio import DrawdownPortfolio, weights_hold

__all__ = [
    "BudgetExecution",
    "DrawdownFloor",
    "DrawdownPortfolio",
    "FloorPortfolio",
    "FloorRows",
    "SoldAtWorst",
    "cheapest_pace",
    "even_pace",
    "exposure_bound",
    "floor_portfolios",
    "least_cost",
    "portfolio_shield",
    "unwound",
    "weights_hold",
]
