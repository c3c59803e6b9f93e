"""A floor under a portfolio, walk-forward: `python benchmarks/drawdown.py` (about two minutes a factor on one thread).

19 US stocks, 1990 to 2022, which is a choice made at the end: what is earned says nothing, only the differences do. In
each fold a PPO of Stable-Baselines3 trades six years, and is run on the year after them, as it is and above a floor:
10 % or 20 % below equity at the start of the year (fixed) or below its peak since (trailing). The largest fall of each
stock in a day is declared before the year begins: a factor times its largest move in the six years. The policy, its
normaliser and the declared falls know nothing of the year.

Wanted: on returns that are clipped at what was declared no breach, whatever the policy does, and be it one that looks
ahead and buys what will fall most. On the returns as they were a breach is possible: how often, how far below the
floor, and what the floor costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import sekai
from sekai.compat import to_sb3
from sekai.finance import Fold, datasets, walk_forward
from sekai.safety.tasks.finance import floor_portfolios
from sekai.vector.wrappers import VecRescaleAction

Floats = NDArray[np.float64]
#: drawdown, and whether it is from the running peak; None for none
Floor = tuple[float, bool] | None
#: observations, day -> actions within the box
Trader = Callable[[Any, int], Any]

TRAIN, YEAR, LOOKBACK, COST = 1512, 252, 10, 1e-3
FLOORS: list[Floor] = [(drawdown, trailing) for drawdown in (0.1, 0.2) for trailing in (False, True)]
#: of the reference: what float64 loses in a year
ROUNDING = 1e-12


class Market(NamedTuple):
    """What a fold gives.

    Attributes:
        train: prices to train on, `(TRAIN, n)`.
        test: prices of the year after, lookback included, `(LOOKBACK + YEAR + 1, n)`.
        falls: the largest fall of each stock that is declared, `(n,)`.
    """

    train: Floats
    test: Floats
    falls: Floats

    def clipped(self) -> Market:
        """The same with the returns of the year clipped at what was declared."""
        moves = np.clip(returns_of(self.test[LOOKBACK:]), -self.falls, self.falls)
        year = self.test[LOOKBACK] * np.cumprod(1 + moves, axis=0)
        return self._replace(test=np.concatenate([self.test[: LOOKBACK + 1], year]))


class Run(NamedTuple):
    """A year of one trader.

    Attributes:
        growth: equity at its end, over that at its start.
        drawdown: the largest fall from a peak, a share of it.
        depth: how far equity was below the floor at most, a share of the reference; 0 without a breach.
        intervened: share of the days on which the filter did.
    """

    growth: float
    drawdown: float
    depth: float
    intervened: float


def returns_of(prices: Floats) -> Floats:
    """Simple returns, a row less."""
    moves: Floats = prices[1:] / prices[:-1] - 1
    return moves


def folds_of(prices: Floats) -> list[Fold]:
    """Six years and the one after them, a year later each time."""
    return walk_forward(
        len(prices), TRAIN, YEAR + 1, YEAR, lookback=LOOKBACK, episode_length=YEAR, warmup=True
    )  # fmt: skip


def market_of(prices: Floats, fold: Fold, factor: float) -> Market:
    """Prices of a fold; what is declared comes from those that it trains on."""
    begin = fold.test.start
    train = prices[begin - TRAIN : begin]
    assert fold.train.start - LOOKBACK == begin - TRAIN and fold.train.stop + YEAR == begin
    falls = np.minimum(factor * np.abs(returns_of(train)).max(axis=0), 0.95)
    return Market(train, prices[begin - LOOKBACK : begin + YEAR + 1], falls)


def portfolios(prices: Floats, slots: int) -> Any:
    """`Portfolio-v0` on these prices, years of them."""
    return sekai.make_vec(
        "Portfolio-v0", slots, prices=prices, lookback=LOOKBACK, episode_length=YEAR, transaction_cost=COST
    )


# ---- traders -----------------------------------------------------------------------------------


def trained(market: Market, steps: int, seed: int) -> Trader:
    """A PPO that was trained on the years before, without a floor."""
    inside = to_sb3(VecRescaleAction(portfolios(market.train, 16), -1.0, 1.0))
    vec = VecNormalize(inside, norm_obs=True, norm_reward=True, gamma=0.99)
    model = PPO(
        "MultiInputPolicy", vec, seed=seed, device="cpu", n_steps=128, batch_size=512, n_epochs=5, ent_coef=0.0,
        policy_kwargs={"log_std_init": -1.0},
    ).learn(steps)  # fmt: skip

    def act(observations: Any, day: int) -> Any:
        wanted = model.predict(vec.normalize_obs(observations), deterministic=True)[0]
        return np.clip((wanted + 1) / 2, 0, 1).astype(np.float32)  # from the bounds that it learned in

    return act


def at_random(market: Market, seed: int) -> Trader:
    """Everything in one stock, or weights at random, anew every day."""
    rng, count = np.random.default_rng(seed), len(market.falls) + 1

    def act(observations: Any, day: int) -> Any:
        n = len(observations["weights"])
        one = np.eye(count)[rng.integers(0, count, n)]
        return np.where(rng.random((n, 1)) < 0.5, one, rng.random((n, count))).astype(np.float32)

    return act


def buys_what_falls(market: Market) -> Trader:
    """Everything in the stock that will fall most; where none will, in the one that will rise most, for a peak."""
    ahead = returns_of(market.test[LOOKBACK:])

    def act(observations: Any, day: int) -> Any:
        chosen = ahead[day].argmin() if ahead[day].min() < -0.01 else ahead[day].argmax()
        return np.tile(np.eye(ahead.shape[1] + 1, dtype=np.float32)[chosen], (len(observations["weights"]), 1))

    return act


# ---- a year ------------------------------------------------------------------------------------


def run(trader: Trader, cases: list[tuple[Market, Floor]], slots: int = 1) -> list[list[Run]]:
    """A year of each slot in several markets side by side, each above its floor or without one."""
    envs = [year_of(market, floor, slots) for market, floor in cases]
    seen = [env.reset(seed=0).observations for env in envs]
    every, paths, intervened = np.arange(slots), [np.ones((len(envs), slots))], np.zeros((len(envs), slots))
    for day in range(YEAR):
        together = {key: np.concatenate([rows[key] for rows in seen]) for key in seen[0]}
        results = [
            env.step(wanted)
            for env, wanted in zip(envs, np.split(trader(together, day), len(envs)), strict=True)
        ]  # fmt: skip
        seen = [result.observations for result in results]
        paths.append(np.array([result.infos.part("equity", every).values for result in results], float))
        for case, result in enumerate(results):
            if cases[case][1] is not None:
                intervened[case] += np.asarray(result.infos.part("intervened", every).values, float) / YEAR
    path = np.array(paths)
    return [runs_of(path[:, case], intervened[case], floor) for case, (_, floor) in enumerate(cases)]


def year_of(market: Market, floor: Floor, slots: int) -> Any:
    """The year of a market, above a floor or without one."""
    env = portfolios(market.test, slots)
    if floor is None:
        return env
    return floor_portfolios(env, falls=market.falls, drawdown=floor[0], trailing=floor[1])


def runs_of(path: Floats, intervened: Floats, floor: Floor) -> list[Run]:
    """What equity `(YEAR + 1, slots)` comes to."""
    peaks = np.maximum.accumulate(path)
    depth = np.zeros(path.shape[1])
    if floor is not None:
        reference = peaks if floor[1] else np.ones_like(path)
        depth = np.maximum(((1 - floor[0]) - path / reference).max(axis=0) - ROUNDING, 0)
    columns = (path[-1], (1 - path / peaks).max(axis=0), depth, intervened)
    return [Run(*row) for row in np.stack(columns, -1).tolist()]


# ---- tables ------------------------------------------------------------------------------------


def line(name: str, runs: list[Run]) -> str:
    """What all years of one trader come to."""
    growth = np.array([run.growth for run in runs])
    breaches = [run.depth for run in runs if run.depth > 0]
    yearly = np.exp(np.log(growth).mean()) - 1
    return (
        f"{name:36}{len(runs):6}{yearly:9.2%}{max(run.drawdown for run in runs):10.1%}{len(breaches):9}"
        f"{max(breaches, default=0.0):9.2%}{np.mean([run.intervened for run in runs]):12.1%}"
    )


def named(floor: Floor) -> str:
    """A floor in words."""
    return "no floor" if floor is None else f"{floor[0]:.0%} {'trailing' if floor[1] else 'fixed'}"


def tables(steps: int, count: int | None, factors: list[float], seed: int) -> None:
    """Train once in each fold, and run everything."""
    prices = np.asarray(datasets.us_stocks().prices)
    folds = folds_of(prices)[:count]
    found: dict[tuple[float, str], list[Run]] = {}
    beyond = dict.fromkeys(factors, 0)
    for number, fold in enumerate(folds):
        trader = trained(market_of(prices, fold, factors[0]), steps, seed + number)
        for factor in factors:
            market = market_of(prices, fold, factor)
            clipped = market.clipped()
            beyond[factor] += int((returns_of(market.test[LOOKBACK:]) < -market.falls).sum())
            within = [(clipped, floor) for floor in (None, *FLOORS)]
            as_it_was = [(market, floor) for floor in (None, *FLOORS)]
            for name, runs in (
                ("clipped: random", run(at_random(market, number), within, 16)),
                ("clipped: looks ahead", run(buys_what_falls(clipped), within)),
                ("clipped: PPO", run(trader, within)),
                ("raw: random", run(at_random(market, number), as_it_was, 16)),
                ("raw: looks ahead", run(buys_what_falls(market), as_it_was)),
                ("raw: PPO", run(trader, as_it_was)),
            ):
                for (_, floor), years in zip(within, runs, strict=True):
                    found.setdefault((factor, f"{name}, {named(floor)}"), []).extend(years)
    for factor in factors:
        days = len(folds) * YEAR * prices.shape[1]
        print(
            f"\ndeclared: {factor:g} times the largest move in training; {beyond[factor]} of {days:,} falls beyond it"
        )
        print(f"{'':36}{'years':>6}{'a year':>9}{'drawdown':>10}{'breaches':>9}{'worst':>9}{'intervenes':>12}")
        for (of, name), years in found.items():
            if of == factor:
                print(line(name, years))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="of PPO in each fold")
    parser.add_argument("--folds", type=int, help="the first so many; by default all 26")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0], help="of the largest move in training")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    tables(given.steps, given.folds, given.factors, given.seed)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
