"""Baselines of MarketMaking-v0: closed forms, played on the native environment and in its exact dynamic program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.envs.finance import MarketMakingEnv, MarketMakingVecEnv
from sekai.finance import avellaneda_stoikov_depths, cartea_jaimungal_depths, glft_depths, policies

ARRIVALS, DECAY, STEPS, LIMIT, RUNNING, FINAL = 140.0, 1.5, 200, 5, 0.02, 0.01
# the risk term of the reward is the running penalty: 0.5 * 1 * 0.2^2 = 0.02. A calm mid leaves less to chance
MARKET: dict[str, Any] = {
    "n_steps": STEPS, "max_inventory": LIMIT, "sigma": 0.2, "risk_aversion": 1.0, "terminal_penalty": FINAL,
}  # fmt: skip


def wealth(make: Any, slots: int, **arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sum of rewards, and wealth at the end, of one episode a slot."""
    vec = MarketMakingVecEnv(slots, autoreset="disabled", **arguments)
    policy = make(vec)
    result: Any = vec.reset(seed=2)
    rewards = np.zeros(slots)
    while not result.dones.all():
        result = vec.step(policy.act(result.observations))
        rewards += result.rewards
    return rewards, vec.wealth


class Program:
    """The environment as a dynamic program over inventories; the mid is a martingale and drops out.

    In a step the bid is filled with probability `p(b) = 1 - exp(-A exp(-k b) dt)`, the ask with `p(a)`, independently,
    each on the inventory before: with `F(q)` the value after the fills, penalties of the step taken,

        V(q) = max over b, a of  p(b) (1 - p(a)) (b + F(q + 1)) + p(a) (1 - p(b)) (a + F(q - 1))
                                 + p(a) p(b) (a + b + F(q)) + (1 - p(a)) (1 - p(b)) F(q)
    """

    q = np.arange(-LIMIT, LIMIT + 1)

    def probability(self, depths: np.ndarray) -> np.ndarray:
        return -np.expm1(-ARRIVALS * np.exp(-DECAY * depths) / STEPS)

    def after(self, value: np.ndarray, steps_left: int) -> np.ndarray:
        return value - self.q**2 * (RUNNING / STEPS + (FINAL if steps_left == 1 else 0.0))

    def backup(self, f: np.ndarray, bid: np.ndarray, ask: np.ndarray) -> np.ndarray:
        """The sum above, for `(2Q + 1, ...)` depths; a side that may not be filled has probability 0."""
        shape = (-1, *[1] * (max(bid.ndim, ask.ndim) - 1))
        up, down = np.append(f[1:], 0.0).reshape(shape), np.append(0.0, f[:-1]).reshape(shape)
        f, q = f.reshape(shape), self.q.reshape(shape)
        b, a = np.where(q < LIMIT, self.probability(bid), 0.0), np.where(q > -LIMIT, self.probability(ask), 0.0)
        return b * (1 - a) * (bid + up) + a * (1 - b) * (ask + down) + a * b * (ask + bid + f) + (1 - a) * (1 - b) * f

    def value_of(self, table: np.ndarray) -> np.ndarray:
        """The value of quoting `table[steps left]`, `(2Q + 1, 2)` each."""
        value = np.zeros(2 * LIMIT + 1)
        for left in range(1, STEPS + 1):
            value = self.backup(self.after(value, left), table[left, :, 0], table[left, :, 1])
        return value

    def optimum(self) -> np.ndarray:
        """The largest value, on a grid of depths 0.01 apart."""
        grid = np.arange(0.0, 2.0, 0.01)
        value = np.zeros(2 * LIMIT + 1)
        for left in range(1, STEPS + 1):
            f = self.after(value, left)
            every = np.zeros((2 * LIMIT + 1, 1, 1))
            value = self.backup(f, every + grid[:, None], every + grid).max(axis=(1, 2))
        return value


def test_the_value_of_cartea_and_jaimungals_quotes_by_dynamic_programming_and_by_playing_them() -> None:
    policy = policies.CarteaJaimungal(MarketMakingEnv(**MARKET))
    program = Program()
    best, exact = program.optimum()[LIMIT], program.value_of(policy._depths.astype(np.float64))[LIMIT]
    assert best == pytest.approx(59.367, abs=1e-3)  # golden
    assert 0.99 * best < exact < best, "made for continuous time, and nearly optimal in 200 steps"
    rewards, _ = wealth(policies.CarteaJaimungal, 20_000, **MARKET)
    error = rewards.std(ddof=1) / np.sqrt(len(rewards))
    assert abs(rewards.mean() - exact) < 3 * error < 0.2
    # the same quotes whatever the inventory earn less
    careless, _ = wealth(policies.FixedSpread, 20_000, **MARKET)
    assert careless.mean() < exact - 3 * error


def test_the_tables_are_those_of_the_closed_forms_by_inventory_and_time_left() -> None:
    env = MarketMakingEnv(n_steps=4, total_time=0.5, max_inventory=3, risk_aversion=0.01, terminal_penalty=0.01)
    market = {"max_inventory": 3, "fill_intensity": 140.0, "fill_decay": 1.5}
    rows = np.array([[q / 3, k / 4] for k in range(1, 5) for q in range(-3, 4)], np.float32)
    times = np.array([0.125, 0.25, 0.375, 0.5])
    cartea = cartea_jaimungal_depths(times, running_penalty=0.02, terminal_penalty=0.01, **market)
    glft = glft_depths(times, sigma=2.0, risk_aversion=0.01, **market)
    for policy, depths in ((policies.CarteaJaimungal(env), cartea), (policies.GLFT(env), glft)):
        expected = np.where(np.isfinite(depths), depths, 5.0).reshape(-1, 2)
        assert policy.act(rows).tolist() == expected.astype(np.float32).tolist()
    # golden, Q = 3 and T = 1: bids at inventories -3 to 2
    policy = policies.CarteaJaimungal(MarketMakingEnv(max_inventory=3, risk_aversion=0.01, terminal_penalty=0.01))
    bids = policy.act(np.array([[q / 3, 1] for q in range(-3, 3)], np.float32))[:, 0]
    assert bids.tolist() == pytest.approx([0.255899, 0.48723, 0.613446, 0.719887, 0.846103, 1.077435], abs=1e-6)


def test_orders_of_several_units_are_counted_in_orders() -> None:
    # an order of 2 units at depth d is one unit at depth 2 d, of decay k / 2, with sigma and inventory twice as large
    double = MarketMakingEnv(max_inventory=6, order_size=2, risk_aversion=0.01, n_steps=4)
    market = {"max_inventory": 3, "fill_intensity": 140.0, "fill_decay": 0.75}
    depths = glft_depths(0.5, sigma=4.0, risk_aversion=0.01, **market)[[1, 4]] / 2
    rows = np.array([[-4 / 6, 0.5], [2 / 6, 0.5]], np.float32)
    assert policies.GLFT(double).act(rows) == pytest.approx(depths)
    stoikov = avellaneda_stoikov_depths([-2, 1], 0.5, sigma=4.0, fill_decay=0.75, risk_aversion=0.01) / 2
    assert policies.AvellanedaStoikov(double).act(rows) == pytest.approx(stoikov)
    assert policies.FixedSpread(double).act(rows).tolist() == [[np.float32(2 / 3)] * 2] * 2
    assert policies.FixedSpread(double, 0.5).act(rows).tolist() == [[0.5, 0.5]] * 2


def test_a_traders_own_limit_is_kept_but_for_the_rare_fill_far_out() -> None:
    env = MarketMakingEnv(risk_aversion=0.01)
    policy = policies.CarteaJaimungal(env, max_inventory=4)
    rows = np.array([[q / 50, 1] for q in (-5, -4, 4, 5)], np.float32)
    quotes = policy.act(rows)
    assert (quotes[:2, 1] == 5.0).all() and (quotes[2:, 0] == 5.0).all()
    assert quotes[0].tolist() == quotes[1].tolist() and quotes[3].tolist() == quotes[2].tolist()


@pytest.mark.parametrize(
    ("gamma", "mean", "deviation", "inventory"), [(0.1, 64.94, 6.49, 2.92), (0.01, 68.52, 8.84, 5.19)]
)
def test_the_published_table_of_avellaneda_and_stoikov(
    gamma: float, mean: float, deviation: float, inventory: float
) -> None:
    # fill_model="bernoulli" is that of the paper; the table's own numbers are of 20,000 paths as well. Its third row,
    # gamma = 0.5, has quotes beyond the mid price, where this environment has none
    vec = MarketMakingVecEnv(20_000, fill_model="bernoulli", risk_aversion=gamma, autoreset="disabled")
    policy, result = policies.AvellanedaStoikov(vec), vec.reset(seed=4)
    seen = result.observations
    for _ in range(200):
        seen = vec.step(policy.act(seen)).observations
    n = 20_000
    assert abs(vec.wealth.mean() - mean) < 3 * deviation * np.sqrt(2 / n)
    assert vec.wealth.std() == pytest.approx(deviation, rel=3 * np.sqrt(1 / n))
    assert vec.inventory.std() == pytest.approx(inventory, rel=3 * np.sqrt(1 / n))
