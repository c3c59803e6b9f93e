"""Ledgers: what happened in a finished episode, period by period, and what that amounts to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.finance.performance import execution_summary, profit_summary, summary
from sekai.vector.infos import same_value

#: Columns of a ledger of `K` episodes of `T` steps: `(T, K)`, or `(T + 1, K)` with the value at the start; time first,
#: the episode last, and what the values have of their own in between.
Columns = dict[str, NDArray[Any]]


class Account(NamedTuple):
    """What is kept of the infos of one kind of environment.

    Attributes:
        curve: the key of the infos by which the kind is known, the first of the levels.
        levels: keys that describe a state: a ledger has them at the start as well.
        flows: keys that describe a step. Levels and flows that an environment does not report are left out.
        measure: function of `(columns, periods per unit of time)` that returns the metrics, `(K,)` each.
    """

    curve: str
    levels: tuple[str, ...]
    flows: tuple[str, ...]
    measure: Callable[[Columns, float], dict[str, NDArray[np.float64]]]

    def reported(self, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The levels and flows among `names`, the keys of the infos."""
        known = set(names)
        return tuple(n for n in self.levels if n in known), tuple(n for n in self.flows if n in known)


def _of_equity(columns: Columns, periods: float) -> dict[str, Any]:
    exposure = None
    if "position" in columns:
        exposure = columns["position"][1:]
    elif "weights" in columns:
        exposure = np.abs(columns["weights"][1:, :-1]).sum(axis=1)
    return summary(
        columns["equity"],
        periods,
        turnover=columns.get("turnover"),
        cost=columns.get("cost"),
        exposure=exposure,
    )


def _of_wealth(columns: Columns, periods: float) -> dict[str, Any]:
    fills = None
    if "bid_filled" in columns and "ask_filled" in columns:
        fills = columns["bid_filled"] + columns["ask_filled"]
    return profit_summary(
        columns["wealth"],
        periods,
        inventory=columns.get("inventory"),
        spread=columns.get("spread_pnl"),
        carried=columns.get("inventory_pnl"),
        fills=fills,
    )


def _of_shortfall(columns: Columns, periods: float) -> dict[str, Any]:
    return execution_summary(
        columns["implementation_shortfall"],
        inventory=columns["inventory"],
        filled=columns["shares_sold"],
        price=columns["execution_price"],
        parts={name: values for name, values in columns.items() if name.endswith("_bps")},
    )


ACCOUNTS = (
    Account(
        "equity",
        ("equity", "position", "weights", "timestamp"),
        ("dt", "cost", "turnover", "carry"),
        _of_equity,
    ),
    Account(
        "wealth",
        ("wealth", "inventory", "mid_price", "timestamp"),
        ("dt", "bid_filled", "ask_filled", "spread_pnl", "inventory_pnl"),
        _of_wealth,
    ),
    Account(
        "implementation_shortfall",
        (
            "implementation_shortfall", "inventory", "mid_price", "timestamp",
            "shortfall_bps", "spread_bps", "temporary_bps", "permanent_bps", "timing_bps",
        ),
        ("dt", "shares_sold", "execution_price"),
        _of_shortfall,
    ),
)  # fmt: skip


def account_of(names: Iterable[str], recorder: object) -> Account:
    """The account for infos with these keys.

    Raises:
        ValueError: there is none.
    """
    known = list(names)
    for account in ACCOUNTS:
        if account.curve in known:
            return account
    curves = [account.curve for account in ACCOUNTS]
    raise ValueError(
        f"The infos of {recorder} have the keys {known}; expected one of {curves}, which the finance environments "
        "report: there is no performance to record without it."
    )


class Episodes:
    """Episodes of the same length, finished in the same call; their metrics are worked out together, when first read.

    Args:
        account: what the columns mean.
        columns: see `Columns`; taken over.
    """

    def __init__(self, account: Account, columns: Columns) -> None:
        self.account, self.columns = account, columns
        self._metrics: list[dict[str, float]] | None = None

    @property
    def metrics(self) -> list[dict[str, float]]:
        """The metrics of each episode."""
        if self._metrics is None:
            self._metrics = self._measured()
        return self._metrics

    def _measured(self) -> list[dict[str, float]]:
        dt = self.columns["dt"]
        same = (dt == dt[0]).all(axis=0)
        periods = 1.0 / np.where(same, dt[0], dt.mean(axis=0))  # a mean of equal numbers has rounding errors
        found: list[dict[str, float]] = [{}] * len(periods)
        for rate in np.unique(periods):
            places = np.flatnonzero(periods == rate)
            part = self.columns if len(places) == len(periods) else _take(self.columns, places)
            measures = self.account.measure(part, float(rate))
            rows = zip(*(values.tolist() for values in measures.values()), strict=True)
            for place, row in zip(places.tolist(), rows, strict=True):
                found[place] = dict(zip(measures, row, strict=True))
        return found


def _take(columns: Columns, places: NDArray[np.intp]) -> Columns:
    return {name: values[..., places] for name, values in columns.items()}


class Performance:
    """A finished episode: its ledger, and what that amounts to.

    `T` steps. What both have depends on what the environment reports:

    - `equity` (`Trading-v0`, `Portfolio-v0`): levels `equity`, `position` or `weights`, `timestamp`; flows `dt`,
      `cost`, `turnover`, `carry`. Metrics: those of `sekai.finance.summary`, per year of `1 / dt` periods.
    - `wealth` (`MarketMaking-v0`): levels `wealth`, `inventory`, `mid_price`, `timestamp`; flows `dt`, `bid_filled`,
      `ask_filled` (0 or 1), `spread_pnl`, `inventory_pnl`. Wealth begins at 0, so that there are no returns. Metrics:
      those of `sekai.finance.profit_summary`, in money.
    - `implementation_shortfall` (`OptimalExecution-v0`): levels `implementation_shortfall`, `inventory`, `mid_price`,
      `timestamp`, `shortfall_bps` and its parts; flows `dt`, `shares_sold`, `execution_price`. Metrics: those of
      `sekai.finance.execution_summary`, and the shortfall and its parts in basis points.

    Two are equal if their ledgers are.

    Args:
        episodes: the episodes that it is one of.
        place: which of them.
    """

    __slots__ = ("_episodes", "_place")

    def __init__(self, episodes: Episodes, place: int) -> None:
        self._episodes, self._place = episodes, place

    @property
    def ledger(self) -> dict[str, NDArray[Any]]:
        """Levels `(T + 1,)`, the start first, and flows `(T,)`; float64, but for timestamps.

        `weights` are `(T + 1, n + 1)`, cash last. The arrays are shared by all who read them: copy before changing one.
        """
        return {name: values[..., self._place] for name, values in self._episodes.columns.items()}

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name; NaN where one is not defined."""
        return dict(self._episodes.metrics[self._place])

    def __eq__(self, other: object) -> bool:
        return same_value(self.ledger, other.ledger) if isinstance(other, Performance) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # arrays are not hashable either

    def __reduce__(self) -> tuple[Any, ...]:
        episodes = self._episodes
        curve, place = episodes.account.curve, np.array([self._place])
        return _rebuilt, (curve, _take(episodes.columns, place))  # alone, without the episodes beside it

    def __repr__(self) -> str:
        return f"Performance({len(self._episodes.columns['dt'])} steps, {self.metrics})"


def _rebuilt(curve: str, columns: Columns) -> Performance:
    (account,) = (account for account in ACCOUNTS if account.curve == curve)
    return Performance(Episodes(account, columns), 0)
