"""The ledger and the fills of MarketMaking-v0: hand-computed numbers, identities, probabilities, a published table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.core.kernels import Kernel
from sekai.envs.finance import MarketMakingEnv, MarketMakingVecEnv
from sekai.envs.finance.making import kernel as mk
from sekai.envs.finance.making.slots import parameter_block

# quotes at the mid or close to it are filled for certain, those FAR away never
CERTAIN: dict[str, Any] = {"fill_intensity": 1e9, "fill_decay": 15.0}
FAR = 5.0
DEFAULTS: dict[str, Any] = {
    "s0": 100.0, "sigma": 2.0, "total_time": 1.0, "fill_intensity": 140.0, "fill_decay": 1.5, "fill_model": "poisson",
    "risk_aversion": 0.1, "order_size": 1, "terminal_penalty": 0.0, "shock_clip": None,
}  # fmt: skip


def block(n_steps: int = 200, max_inventory: int = 50, **changes: Any) -> NDArray[np.float64]:
    return parameter_block({**DEFAULTS, **changes}, n_steps=n_steps, max_inventory=max_inventory, max_offset=FAR)


def started(**arguments: Any) -> MarketMakingEnv:
    env = MarketMakingEnv(**{**CERTAIN, **arguments})
    env.reset(seed=0)
    return env


# ---- one step -------------------------------------------------------------------------------------


def test_both_quotes_filled_earn_their_distances_and_leave_no_inventory() -> None:
    # bought at 99.5, sold at 100.25: cash 0.75, whatever the mid does next
    result = started().step([0.5, 0.25])
    info = result.info
    assert (info["bid"], info["ask"], info["cash"], info["inventory"]) == (99.5, 100.25, 0.75, 0.0)
    assert (info["spread_pnl"], info["inventory_pnl"], info["wealth"], result.reward) == (0.75, 0.0, 0.75, 0.75)
    assert info["mid_price"] != 100.0


def test_a_filled_bid_is_held_while_the_mid_moves() -> None:
    # 3 units at 99.5 cost 298.5; worth 3 S' afterwards; penalty 0.5 * 0.1 * 2^2 * 0.01 * 3^2 = 0.018
    result = started(order_size=3, n_steps=100).step([0.5, FAR])
    info, move = result.info, result.info["mid_price"] - 100.0
    assert (info["bid_filled"], info["ask_filled"], info["inventory"], info["cash"]) == (True, False, 3.0, -298.5)
    assert info["wealth"] == pytest.approx(3 * 0.5 + 3 * move, rel=1e-12)
    assert info["spread_pnl"] == 1.5 and info["inventory_pnl"] == pytest.approx(3 * move, rel=1e-12)
    assert result.reward == pytest.approx(1.5 + 3 * move - 0.018, rel=1e-12)


def test_the_mid_moves_after_the_fills_so_the_quotes_stand_around_the_mid_just_seen() -> None:
    env = started()
    mid = env.step([FAR, FAR]).info["mid_price"]
    info = env.step([0.5, 1.5]).info
    assert (info["bid"], info["ask"]) == (mid - 0.5, mid + 1.5) and info["mid_price"] != mid


@pytest.mark.parametrize(("action", "sign"), [([0.0, FAR], 1), ([FAR, 0.0], -1)])
def test_fills_are_judged_on_the_inventory_before_the_step(action: list[float], sign: int) -> None:
    env = started(max_inventory=2, sigma=0.0)
    for _ in range(2):
        env.step(action)
    assert env.inventory == sign * 2
    # at the bound one side is not filled, though the other, filled in the same step, makes room
    info = env.step([0.0, 0.0]).info
    assert (info["bid_filled"], info["ask_filled"], info["inventory"]) == (sign < 0, sign > 0, sign * 1)
    info = env.step([0.0, 0.0]).info
    assert (info["bid_filled"], info["ask_filled"], info["inventory"]) == (True, True, sign * 1)


@pytest.mark.parametrize(("action", "sign"), [([0.0, FAR], 1), ([FAR, 0.0], -1)])
def test_an_order_that_would_go_beyond_the_bound_is_not_filled_in_part(action: list[float], sign: int) -> None:
    # orders of 3 under a bound of 7: 3, 6, and no further
    env = started(order_size=3, max_inventory=7)
    inventories = [env.step(action).info["inventory"] for _ in range(5)]
    assert inventories == [sign * q for q in (3.0, 6.0, 6.0, 6.0, 6.0)]


def test_the_penalty_is_on_the_inventory_after_the_fills_and_at_the_end_there_is_another() -> None:
    # dt = 1/2: step 1 ends with q = 1, step 2 with q = 2. Risk 0.5 * 0.4 * 3^2 * 0.5 = 0.9 per unit squared
    env = started(n_steps=2, risk_aversion=0.4, sigma=3.0, terminal_penalty=0.25)
    first, last = env.step([0.0, FAR]), env.step([0.0, FAR])
    assert first.reward == pytest.approx(first.info["inventory_pnl"] - 0.9 * 1)
    assert last.reward == pytest.approx(last.info["inventory_pnl"] - 0.9 * 4 - 0.25 * 4)
    assert last.terminated


# ---- identities -----------------------------------------------------------------------------------

lists = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=30)


@given(lists, st.integers(1, 3), st.integers(3, 8), st.sampled_from(["poisson", "bernoulli"]), st.integers(0, 2**32))
def test_the_ledger_holds_at_every_step(offsets: Any, size: int, bound: int, model: str, seed: int) -> None:
    env = MarketMakingEnv(
        n_steps=len(offsets), order_size=size, max_inventory=bound, fill_model=model, fill_intensity=9e3,
        fill_decay=2.0, sigma=9.0, risk_aversion=0.0,
    )  # fmt: skip
    env.reset(seed=seed)
    mid, cash, inventory, wealth, total = 100.0, 0.0, 0.0, 0.0, 0.0
    for action in offsets:
        result = env.step(action)
        info = result.info
        below, above = np.float32(action).astype(float)
        assert (info["bid"], info["ask"]) == (mid - below, mid + above)
        cash += size * (info["ask_filled"] * info["ask"] - info["bid_filled"] * info["bid"])
        inventory += size * (info["bid_filled"] - info["ask_filled"])
        mid = info["mid_price"]
        assert info["inventory"] == inventory and abs(inventory) <= bound
        assert info["cash"] == pytest.approx(cash, abs=1e-9)
        assert info["wealth"] == info["cash"] + info["inventory"] * mid
        assert info["spread_pnl"] + info["inventory_pnl"] == pytest.approx(info["wealth"] - wealth, abs=1e-9)
        assert result.reward == info["spread_pnl"] + info["inventory_pnl"]
        wealth = info["wealth"]
        total += result.reward
    assert total == pytest.approx(env.wealth, abs=1e-8) and result.terminated


def test_ten_thousand_random_steps_stay_within_the_bound_and_conserve_wealth() -> None:
    vec = MarketMakingVecEnv(50, max_inventory=4, order_size=2, fill_intensity=1e3, n_steps=250)
    vec.reset(seed=0)
    wealth, reached = vec.wealth, set()
    for action in np.random.default_rng(0).uniform(0.0, 2.0, (200, 50, 2)):
        columns = {key: values for key, (values, _) in vec.step(action).infos.columns.items()}
        assert np.abs(columns["inventory"]).max() <= 4
        reached |= set(columns["inventory"].tolist())
        np.testing.assert_allclose(
            columns["wealth"] - wealth, columns["spread_pnl"] + columns["inventory_pnl"], atol=1e-9
        )
        wealth = columns["wealth"]
    assert reached == {-4.0, -2.0, 0.0, 2.0, 4.0}


@given(st.integers(0, 2**32))
def test_buying_and_selling_are_mirror_images(seed: int) -> None:
    # R13: swap the sides, let the mid move the other way: same money, the opposite inventory
    rng = np.random.default_rng(seed)
    n, params = 6, block(max_inventory=2, n_steps=8, terminal_penalty=0.2, fill_intensity=30.0, fill_decay=0.5)
    every, frozen = np.arange(n), np.zeros(n, bool)
    runs: list[Any] = [(np.zeros((mk.STATE_ROWS, n)), np.zeros(n, np.int64)) for _ in range(2)]
    for state, clock in runs:
        mk.begin.compiled(every, params, state, clock)
    for _ in range(8):
        offsets, shocks = rng.uniform(0, 3, (n, 2)).astype(np.float32), rng.standard_normal(n)
        uniforms, outs = rng.random((n, 2)), []
        for (state, clock), side in zip(runs, (1, -1), strict=True):
            out, flags = np.empty((mk.OUT_ROWS, n)), np.empty((mk.FLAG_ROWS, n), bool)
            mk.advance.compiled(
                0, n, offsets[:, ::side].copy(), frozen, params, side * shocks, uniforms[:, ::side].copy(),
                state, clock, out, flags, np.empty((n, 2), np.float32),
            )  # fmt: skip
            outs.append((out, flags))
        (a, buys), (b, sells) = outs
        assert np.array_equal(buys[[mk.BID_FILLED, mk.ASK_FILLED]], sells[[mk.ASK_FILLED, mk.BID_FILLED]])
        assert np.array_equal(a[mk.OUT_INVENTORY], -b[mk.OUT_INVENTORY])
        assert np.array_equal(a[mk.SPREAD], b[mk.SPREAD])
        for row in (mk.REWARD, mk.CARRIED, mk.WEALTH):
            np.testing.assert_allclose(a[row], b[row], atol=1e-11)
        np.testing.assert_allclose(a[mk.OUT_MID] - 100, 100 - b[mk.OUT_MID], atol=1e-12)


# ---- fills ----------------------------------------------------------------------------------------


@given(st.floats(0, 20), st.floats(0, 500), st.floats(0, 10), st.sampled_from(["poisson", "bernoulli"]))
@example(0.3, 100.0, 1.0, "poisson")  # where the bound of the shortcut is closest: small decays
@example(0.3, 100.0, 1.0, "bernoulli")
def test_the_shortcut_around_the_exponential_decides_as_the_formula(
    distance: float, intensity: float, decay: float, model: str
) -> None:
    params = block(fill_intensity=intensity, fill_decay=decay, fill_model=model)
    expected = intensity / 200 * math.exp(-decay * distance)
    probability = -math.expm1(-expected) if model == "poisson" else min(1.0, expected)
    for fill in (mk.is_filled, mk.is_filled.compiled):
        for uniform in (0.0, *(probability * (1 + sign * 10.0**-k) for sign in (1, -1) for k in range(1, 11))):
            if uniform < 1.0 and uniform != probability:  # as numbers so small that they round to 0 are
                assert fill(uniform, distance, params) == (uniform < probability)


@pytest.mark.parametrize("uniform", [0.0, 1e-9, 0.3, 0.495, 0.51, 0.69, 0.71])
def test_a_quote_at_the_mid_is_filled_below_its_probability(uniform: float) -> None:
    # 140 / 200 = 0.7 orders expected: 1 - exp(-0.7) = 0.5034 or 0.7
    assert mk.is_filled(uniform, 0.0, block()) == (uniform < 0.5034)
    assert mk.is_filled(uniform, 0.0, block(fill_model="bernoulli")) == (uniform < 0.7)


@pytest.mark.parametrize("distance", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("model", ["poisson", "bernoulli"])
def test_fills_come_with_the_probability_of_the_formula_on_both_sides(model: str, distance: float) -> None:
    n, steps = 2000, 50
    vec = MarketMakingVecEnv(n, fill_model=model, max_inventory=200)
    vec.reset(seed=3)
    filled = np.zeros(2)
    both = 0
    for _ in range(steps):
        columns = vec.step(np.full((n, 2), distance)).infos.columns
        sides = np.array([columns["bid_filled"][0], columns["ask_filled"][0]])
        filled += sides.sum(axis=1)
        both += int(sides.all(axis=0).sum())
    expected = 0.7 * math.exp(-1.5 * distance)  # 140 / 200 per step at the mid
    probabilities = {"poisson": 1 - math.exp(-expected), "bernoulli": expected}
    p = probabilities.pop(model)
    error = math.sqrt(p * (1 - p) / (n * steps))
    assert np.abs(filled / (n * steps) - p).max() < 4 * error
    (other,) = probabilities.values()
    if distance < 2.0:
        assert np.abs(filled / (n * steps) - other).min() > 4 * error  # negative control: the other model
    joint = p * p  # the sides are independent
    assert abs(both / (n * steps) - joint) < 4 * math.sqrt(joint * (1 - joint) / (n * steps))


def test_a_probability_of_the_bernoulli_model_stops_at_one() -> None:
    env = started(fill_model="bernoulli", fill_intensity=1e4, sigma=0.0)  # 50 orders expected in a step
    assert all(env.step([0.0, 0.0]).info["ask_filled"] for _ in range(100))


# ---- the published table --------------------------------------------------------------------------

# Avellaneda and Stoikov 2008, sections 3.3 (simulations of 1,000 paths), as reproduced with 20,000 paths:
# risk aversion, strategy -> mean and standard deviation of the final wealth, of the final inventory.
# Their third value, 0.5, often quotes on the far side of the mid, which is outside the action space.
PUBLISHED = {
    (0.1, "inventory"): (64.94, 6.49, 2.92),
    (0.1, "symmetric"): (68.20, 13.15, 8.33),
    (0.01, "inventory"): (68.52, 8.84, 5.19),
}


def final_wealth(vec: MarketMakingVecEnv, risk_aversion: float, strategy: str) -> NDArray[np.float64]:
    """Wealth after an episode of quotes around the reservation price `S - q g s^2 (T - t)`, or around the mid."""
    vec.reset(seed=1)
    least = math.log(1 + risk_aversion / vec.template.fill_decay) / risk_aversion
    for _ in range(200):
        variance_left = vec.template.sigma**2 * vec.time_remaining
        half = 0.5 * risk_aversion * variance_left + least
        skew = vec.inventory * risk_aversion * variance_left if strategy == "inventory" else 0.0 * half
        vec.step(np.clip(np.stack((half + skew, half - skew), axis=1), 0.0, vec.template.max_offset))
    return vec.wealth


@pytest.mark.parametrize(("risk_aversion", "strategy"), PUBLISHED)
def test_the_published_table_of_avellaneda_and_stoikov(risk_aversion: float, strategy: str) -> None:
    mean, deviation, inventory = PUBLISHED[risk_aversion, strategy]
    n = 10_000
    vec = MarketMakingVecEnv(n, fill_model="bernoulli", autoreset=False)
    wealth = final_wealth(vec, risk_aversion, strategy)
    error = deviation * math.sqrt(1 / n + 1 / 20_000)
    assert abs(wealth.mean() - mean) < 3 * error
    assert wealth.std() == pytest.approx(deviation, rel=0.04)
    assert vec.inventory.std() == pytest.approx(inventory, rel=0.04)
    # negative control: the same quotes in the other fill model earn far less
    assert final_wealth(MarketMakingVecEnv(n, autoreset=False), risk_aversion, strategy).mean() < mean - 30 * error


def test_the_machine_code_gives_the_bits_of_the_python_it_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def tape() -> list[Any]:
        rows: list[Any] = []
        for model in ("poisson", "bernoulli"):
            vec = MarketMakingVecEnv(
                4, n_steps=12, fill_model=model, max_inventory=2, fill_decay=0.3, shock_clip=1.0, terminal_penalty=0.3,
                total_time=0.06, autoreset=False,
            )  # fmt: skip
            vec.reset(seed=0)
            for number, actions in enumerate(np.random.default_rng(0).uniform(0, 5, (15, 4, 2))):
                if number == 5:
                    vec.reset(mask=np.array([True, False, False, True]))
                result = vec.step(actions)
                rows += [result.observations.tolist(), result.rewards.tolist(), list(result.infos), vec.wealth.tolist()]
        return rows

    machine = tape()
    for name in ("advance", "begin", "observe", "first_outside"):
        python = Kernel(getattr(mk, name).py_func)
        python.__dict__["compiled"] = python.py_func
        monkeypatch.setattr(mk, name, python)
    assert mk.advance.compiled is mk.advance.py_func
    np.testing.assert_equal(tape(), machine)
