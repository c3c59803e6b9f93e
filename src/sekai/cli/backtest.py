"""`sekai backtest`: a baseline policy against the others over many episodes, in a table and a picture.

`N` episodes of at most `T` steps. Every policy plays the same windows of a history; in a simulated market every one
starts from the same seed.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.cli.baselines import Estimates, Make, baselines_of, estimate, require_policy
from sekai.cli.curves import Curves, draw_curves
from sekai.cli.errors import BadValue
from sekai.cli.output import Advance, on_terminal, progress, show_table
from sekai.cli.picture import require_writable
from sekai.finance import MarketData, VecRecordPerformance, datasets
from sekai.finance.ledgers import Performance
from sekai.finance.policies import Policy
from sekai.registry import make_vec, spec
from sekai.seeding import spawn_seeds
from sekai.vector import VecEnv

SLOTS = 1024
HISTORIES: Mapping[str, Callable[[], MarketData]] = {
    "sp500": datasets.sp500,
    "nasdaq": datasets.nasdaq,
    "us_stocks": datasets.us_stocks,
}
PARQUET = (".parquet", ".pq")
WITH_DATA = ("Trading-v0", "Portfolio-v0")
LOOKBACK, BARS_PER_YEAR = 30, 252
LENGTH = 252  # steps of an episode on a history, where none are asked for
WARM_UP = 3  # one row in so many, the first ones, is left to policies that estimate moments


def backtest(
    id: str, *, policy: str, data: str | None, episodes: int, length: int | None, output: Path, seed: int
) -> None:
    """Run a backtest: print the table, save the picture.

    Args:
        id: of the environment.
        policy: name of one of its baselines.
        data: name of a history, or path of a CSV or Parquet file; None: the environment's simulated market.
        episodes: how many each policy plays.
        length: steps of an episode; None: as many as the environment has by default.
        output: where the picture goes.
        seed: of the environments.

    Raises:
        BadValue: an argument that cannot be used.
        ImportError: a package that reads the history, or matplotlib, is not installed.
        OSError, TypeError, ValueError: the history cannot be read.
    """
    id = spec(id).id
    require_policy(id, policy)
    require_writable(output)
    market, past = _market(id, data, length)
    rounds = -(-episodes // SLOTS)
    slots = -(-episodes // rounds)
    with VecRecordPerformance(make_vec(id, slots, **market, vector_kwargs={"autoreset": False})) as vec:
        names = [policy, *(name for name in baselines_of(id) if name != policy)]
        made = {name: _made(baselines_of(id)[name], vec, past, name) for name in names}
        steps = _length(vec)
        with progress(f"{id}, {len(made)} policies", len(made) * rounds * slots * steps) as advance:
            played = {name: play(vec, made[name], rounds, seed, advance)[:episodes] for name in names}
    how_many = f"{_counted(episodes, 'episode')} of {_counted(steps, 'step')}"
    what = f"{how_many}, {_market_text(data, market, past)}, seed {seed}"
    report = REPORTS[id]
    _show(id, what, {name: report.cells(found) for name, found in played.items()}, list(report.columns))
    curves = {name: curves_of(found, report.curve) for name, found in played.items()}
    draw_curves(curves, output, f"{id}: {policy}", what, report.text)
    print(f"{output} saved")


class Played(NamedTuple):
    """An episode.

    Attributes:
        performance: its ledger and metrics.
        reward: sum of its rewards.
    """

    performance: Performance
    reward: float


def play(vec: VecEnv, policy: Policy, rounds: int, seed: int, advance: Advance) -> list[Played]:
    """Play an episode in every slot, so many times.

    Args:
        vec: a `VecRecordPerformance` with autoreset off.
        policy: made for it.
        rounds: how many times.
        seed: of the first round; those of the others are spawned from it, so that every policy meets the same markets.
        advance: told the env steps done; an episode that ends early counts in full.
    """
    found: list[Played] = []
    length = _length(vec)
    for own_seed in [seed, *spawn_seeds(seed, rounds - 1)]:
        result: Any = vec.reset(seed=own_seed)
        policy.reset()
        episodes: dict[int, Played] = {}
        rewards = np.zeros(vec.num_envs)
        steps = 0
        while len(episodes) < vec.num_envs:
            result = vec.step(policy.act(result.observations))
            rewards += result.rewards  # 0 in a slot that has ended
            for slot in np.flatnonzero(result.ended).tolist():
                episodes[slot] = Played(result.infos[slot]["performance"], float(rewards[slot]))
            steps += 1
            advance(vec.num_envs)
        advance(vec.num_envs * (length - steps))
        found.extend(episodes[slot] for slot in range(vec.num_envs))
    return found


def curves_of(found: list[Played], name: str) -> Curves:
    """A column of the ledgers as `(T + 1, N)`; an episode that ended early keeps its last value."""
    columns = [each.performance.ledger[name] for each in found]
    length = max(map(len, columns))
    return np.stack([np.pad(column, (0, length - len(column)), mode="edge") for column in columns], axis=1)


# ---- the market -----------------------------------------------------------------------------------


def read_history(name: str) -> MarketData:
    """A history by its name, or from a file; rows without a price are refused."""
    if name in HISTORIES:
        return HISTORIES[name]()
    path = Path(name)
    if not path.exists():
        raise BadValue(f"--data {name}: there is no such file; expected a CSV or Parquet file, or {_known()}.")
    if path.is_dir():
        raise BadValue(f"--data {name} is a folder; expected a CSV or Parquet file, or {_known()}.")
    try:
        data = MarketData.from_parquet(path) if path.suffix.lower() in PARQUET else MarketData.from_csv(path)
    except (EOFError, OSError, zlib.error, csv.Error) as error:
        raise BadValue(f"--data {name} cannot be read: {error}; expected a whole CSV or Parquet file.") from error
    try:
        data.check_listed(0, len(data) - 1)
    except ValueError as error:
        raise BadValue(
            f"{path}: {str(error).partition(', and the window')[0]}; expected a price in every row."
        ) from None
    return data


def _known() -> str:
    return " or ".join((", ".join([*HISTORIES][:-1]), [*HISTORIES][-1]))


def _market(id: str, name: str | None, length: int | None) -> tuple[dict[str, Any], Estimates | None]:
    """Arguments of the environment, and what policies know of the rows before the first decision."""
    if name is None:
        own = "episode_length" if id in WITH_DATA else "n_steps"
        return {} if length is None else {own: length}, None
    if id not in WITH_DATA:
        raise BadValue(
            f"--data {name} was given, and the market of {id} is simulated: leave it out, or choose "
            f"{' or '.join(WITH_DATA)}."
        )
    data = read_history(name)
    warm_up = max(len(data) // WARM_UP, LOOKBACK) if id == "Portfolio-v0" else LOOKBACK
    steps = LENGTH if length is None else length
    _require_room(name, len(data), warm_up, steps)
    arguments: dict[str, Any] = {"lookback": LOOKBACK, "episode_length": steps}
    if id != "Portfolio-v0":
        return {"data": data, **arguments}, None
    before, after = data.split(warm_up, history=LOOKBACK)
    return {"data": after, **arguments}, estimate(before, BARS_PER_YEAR)


def _require_room(name: str, rows: int, warm_up: int, steps: int) -> None:
    """Refuse an episode that is longer than what a history has after the rows of its warm-up."""
    most = rows - warm_up - 1
    if steps <= most:
        return
    hint = f"an --episode-length of at most {most}, or a longer history" if most > 0 else "a longer history"
    raise BadValue(
        f"An episode of {_counted(steps, 'step')} does not fit into --data {name}: {_counted(rows, 'row')}, of which "
        f"the first {warm_up} come before the first decision; expected {hint}."
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _market_text(name: str | None, market: dict[str, Any], past: Estimates | None) -> str:
    if name is None:
        return "simulated market"
    data = market["data"]
    first = 0 if past is None else LOOKBACK
    source = name if name in HISTORIES else Path(name).name
    if data.timestamps is None:
        return f"{source}, {len(data) - first:,} rows"
    return f"{source}, {data.timestamps[first]} to {data.timestamps[-1]}"


def _made(make: Make, vec: VecEnv, past: Estimates | None, name: str) -> Policy:
    try:
        return make(vec, past)
    except ValueError as error:
        raise BadValue(f"The policy {name!r} cannot be made: {error}") from error


def _length(vec: VecEnv) -> int:
    """Steps of an episode that does not end early."""
    template: Any = vec.unwrapped
    names = template.template.argument_names()
    return int(vec.get_attr("n_steps" if "n_steps" in names else "episode_length")[0])


# ---- the report -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is said of the episodes of a kind of environment.

    Attributes:
        curve: the column of the ledger that is drawn.
        text: its name and unit, the label of its axis.
        columns: for every column of the table, by its title, what makes a cell of the metrics by name, each `(N,)`,
            "reward" among them.
    """

    curve: str
    text: str
    columns: Mapping[str, Callable[[Mapping[str, NDArray[np.float64]]], str]]

    def cells(self, found: list[Played]) -> tuple[str, ...]:
        """The row of a policy."""
        metrics = [{**each.performance.metrics, "reward": each.reward} for each in found]
        together = {name: np.array([each[name] for each in metrics]) for name in metrics[0]}
        return tuple(cell(together) for cell in self.columns.values())


def _mean(name: str, form: str) -> Callable[[Mapping[str, NDArray[np.float64]]], str]:
    """The mean over the episodes in which a metric is defined."""

    def cell(metrics: Mapping[str, NDArray[np.float64]]) -> str:
        values = metrics[name][~np.isnan(metrics[name])]
        return format(values.mean(), form) if len(values) else "n/a"

    return cell


def _sd(name: str, form: str) -> Callable[[Mapping[str, NDArray[np.float64]]], str]:
    """The standard deviation over the episodes, `N - 1` in the denominator."""

    def cell(metrics: Mapping[str, NDArray[np.float64]]) -> str:
        return format(metrics[name].std(ddof=1), form) if len(metrics[name]) > 1 else "n/a"

    return cell


# titles are short: all of EQUITY fit into 100 characters, those of the others into 80
EQUITY = Report(
    curve="equity",
    text="Equity, 1 at the start",
    columns={
        "return": _mean("total_return", "+.1%"),
        "sd": _sd("total_return", ".1%"),
        "annual": _mean("annual_return", "+.1%"),
        "vol": _mean("volatility", ".1%"),
        "Sharpe": _mean("sharpe_ratio", ".2f"),
        "Sortino": _mean("sortino_ratio", ".2f"),
        "drawdown": _mean("max_drawdown", ".1%"),
        "turnover": _mean("annual_turnover", ".1f"),
        "cost": _mean("cost_drag", ".2%"),
    },
)
WEALTH = Report(
    curve="wealth",
    text="Wealth, in money",
    columns={
        "profit": _mean("profit", "+.2f"),
        "sd": _sd("profit", ".2f"),
        "spread": _mean("spread_profit", "+.2f"),
        "inventory": _mean("inventory_profit", "+.2f"),
        "held": _mean("mean_absolute_inventory", ".2f"),
        "fills": _mean("fills", ".1f"),
        "reward": _mean("reward", "+.2f"),
    },
)
SHORTFALL = Report(
    curve="shortfall_bps",
    text="Implementation shortfall, basis points",
    columns={
        "total": _mean("shortfall_bps", "+.1f"),
        "sd": _sd("shortfall_bps", ".1f"),
        "spread": _mean("spread_bps", "+.1f"),
        "temporary": _mean("temporary_bps", "+.1f"),
        "permanent": _mean("permanent_bps", "+.1f"),
        "timing": _mean("timing_bps", "+.1f"),
        "reward": _mean("reward", "+.1f"),
    },
)
REPORTS: Mapping[str, Report] = {
    "Trading-v0": EQUITY,
    "Portfolio-v0": EQUITY,
    "MarketMaking-v0": WEALTH,
    "OptimalExecution-v0": SHORTFALL,
}


def _show(id: str, what: str, cells: Mapping[str, tuple[str, ...]], columns: list[str]) -> None:
    if on_terminal():
        rows = [(name, *row) for name, row in cells.items()]
        show_table(f"{id}: {what}", ("policy", *columns), rows, right=True)
        return
    for name, row in cells.items():
        print(name, *(f"{column.lower()}={cell}" for column, cell in zip(columns, row, strict=True)))
