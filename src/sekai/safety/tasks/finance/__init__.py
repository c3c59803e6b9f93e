"""Two tasks of trading with exact sets: a drawdown floor under clipped shocks, and an order with a budget."""

from sekai.safety.tasks.finance.drawdown import DrawdownFloor, exposure_bound, unwound
from sekai.safety.tasks.finance.execution import BudgetExecution, even_pace, least_cost

__all__ = [
    "BudgetExecution",
    "DrawdownFloor",
    "even_pace",
    "exposure_bound",
    "least_cost",
    "unwound",
]
