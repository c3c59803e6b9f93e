"""The shortfall of OptimalExecution-v0: numbers worked out by hand, the paper's, and identities of every path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs.finance import OptimalExecutionEnv, OptimalExecutionVecEnv
from sekai.envs.finance.execution import kernel as xk
from sekai.envs.finance.execution.slots import ExecutionSlots
from tests.envs.finance.execution_samples import (
    EXPECTED,
    LEFT,
    PAPER,
    UTILITY,
    VALUE,
    VARIANCE,
    paper_fractions,
    ready,
    run,
)

SMALL: dict[str, Any] = {
    "initial_inventory": 1000.0,
    "s0": 100.0,
    "sigma": 0.0,
    "total_time": 1.0,
    "n_steps": 2,
    "permanent_impact": 0.01,
    "temporary_impact": 0.02,
    "fixed_cost": 0.5,
    "risk_aversion": 0.0,
}
PARTS = ("spread_bps", "temporary_bps", "permanent_bps", "timing_bps")


def play(fractions: Any, shocks: Any, *, compiled: bool = True, **arguments: Any) -> list[dict[str, float]]:
    """One episode of one slot through the kernel, with fractions in float64 and the shocks given; rows of `out`."""
    blocks = OptimalExecutionEnv(**arguments)._blocks
    slots = ExecutionSlots(1, blocks)
    out, terminated, observations = np.zeros((xk.OUT_ROWS, 1)), np.zeros(1, bool), np.empty((1, 3), np.float32)
    advance = xk.advance.compiled if compiled else xk.advance
    rows = []
    for fraction, shock in zip(fractions, shocks, strict=True):
        advance(
            0, 1, np.array([[fraction]]), np.zeros(1, bool), blocks.params, blocks.caps, np.array([float(shock)]),
            slots.state, slots.clock, out, terminated, observations,
        )  # fmt: skip
        names = ("reward", "time", "dt", "shares", "price", "mid", "inventory", "shortfall", "bps", *PARTS)
        rows.append(dict(zip(names, out[:, 0].tolist(), strict=True)))
    assert terminated[0]
    return rows


# ---- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "s"), [("sell", 1), ("buy", -1)])
def test_two_slices_by_hand(side: str, s: int) -> None:
    first, second = (result.info for result in run(ready(**SMALL, side=side), [0.25, 0.1]))
    # tau = 1/2; 250 shares at 100 - .5 - .02 * 250 / .5; the mid moves by .01 * 250
    assert (first["shares_sold"], first["inventory"]) == (250.0, 750.0)
    assert first["execution_price"] == 100 - s * 10.5 and first["mid_price"] == 100 - s * 2.5
    # .5 * 250 + 10 * 250 + .01 * 750 * 250 = 125 + 2500 + 1875; for the seller 100000 - 250 * 89.5 - 750 * 97.5
    assert first["implementation_shortfall"] == pytest.approx(4500.0, rel=1e-15)
    # in 1e-4 of 1000 * 100
    assert [first[name] for name in PARTS] == pytest.approx([12.5, 250.0, 187.5, 0.0], rel=1e-15)
    # the last slice trades all 750, at the mid less .5 + .02 * 750 / .5, and the impact of what it leaves is nil
    assert (second["shares_sold"], second["inventory"]) == (750.0, 0.0)
    assert second["execution_price"] == 100 - s * (2.5 + 30.5) and second["mid_price"] == 100 - s * 10
    # 4500 + .5 * 750 + 30 * 750
    assert second["implementation_shortfall"] == pytest.approx(27375.0, rel=1e-15)
    assert second["shortfall_bps"] == pytest.approx(2737.5, rel=1e-15)


def test_rewards_are_what_each_slice_adds() -> None:
    rewards = [result.reward for result in run(ready(**SMALL), [0.25, 0.1])]
    assert rewards == pytest.approx([-450.0, 450.0 - 2737.5], rel=1e-14)


def test_a_shock_is_charged_on_what_is_left_after_the_slice() -> None:
    # sigma sqrt(tau) z = 4 * sqrt(1/4) * 1.5 = 3 up: good for a seller, bad for a buyer, on 750 of 1000 shares
    arguments = {**SMALL, "sigma": 4.0, "total_time": 0.5, "permanent_impact": 0.0}
    for side, bps in (("sell", -225.0), ("buy", 225.0)):
        first, last = play([0.25, 1.0], [1.5, 9.9], side=side, **arguments)
        assert first["mid"] == 103.0 and first["timing_bps"] == pytest.approx(bps)
        assert last["timing_bps"] == first["timing_bps"], "nothing was left to lose on"


def test_the_risk_term_is_the_variance_of_what_is_left() -> None:
    # lambda sigma^2 tau x^2 = 1e-4 * 16 * .25 * 750^2 = 225, in 1e-4 of 100000: 22.5; no shock, no impact
    free = {"permanent_impact": 0.0, "temporary_impact": 0.0, "fixed_cost": 0.0}
    rows = play([0.25, 1.0], [0, 0], **{**SMALL, **free, "sigma": 4.0, "total_time": 0.5, "risk_aversion": 1e-4})
    assert [row["reward"] for row in rows] == pytest.approx([-22.5, 0.0])
    assert rows[-1]["bps"] == 0.0, "it is no part of the shortfall"


def test_shocks_are_clipped_where_asked() -> None:
    arguments = {**SMALL, "sigma": 4.0, "total_time": 0.5, "permanent_impact": 0.0, "shock_clip": 0.5}
    assert [row["mid"] for row in play([0, 1], [3.0, -9.0], **arguments)] == [101.0, 100.0]


# ---- the paper ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False], ids=["machine", "python"])
def test_the_papers_schedule_has_the_papers_cost_and_utility(compiled: bool) -> None:
    rows = play(paper_fractions(), [0] * 5, compiled=compiled, **PAPER)
    assert [row["inventory"] for row in rows] == pytest.approx(LEFT, rel=1e-12, abs=1e-6)
    assert rows[-1]["shortfall"] == pytest.approx(EXPECTED, rel=1e-12)
    assert sum(row["reward"] for row in rows) == pytest.approx(-UTILITY * 1e4 / VALUE, rel=1e-12)


def test_the_papers_schedule_through_the_environment() -> None:
    # actions are float32, so good to 1e-7
    results = run(ready(**PAPER, sigma=0.0), paper_fractions())
    assert [result.info["inventory"] for result in results] == pytest.approx(LEFT, rel=1e-6)
    assert results[-1].info["implementation_shortfall"] == pytest.approx(EXPECTED, rel=1e-7)
    assert results[-1].info["shortfall_bps"] == pytest.approx(182.24539726, rel=1e-7)


@pytest.mark.parametrize(
    ("fractions", "cost"),
    [
        # gamma X^2 / 2 + eps X + (eta - gamma tau / 2) X^2 / T = 125000 + 62500 + 475000
        ([1 / 5, 1 / 4, 1 / 3, 1 / 2, 1.0], 662500.0),
        # eps X + eta X^2 / tau
        ([1.0], 2562500.0),
    ],
    ids=["even", "at once"],
)
def test_even_slices_and_all_at_once(fractions: list[float], cost: float) -> None:
    results = run(ready(**PAPER, sigma=0.0), fractions)
    assert results[-1].terminated
    assert results[-1].info["implementation_shortfall"] == pytest.approx(cost, rel=1e-7)


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_mean_and_variance_of_the_shortfall_are_the_papers(side: str) -> None:
    n = 100_000
    vec = OptimalExecutionVecEnv(n, **PAPER, side=side, autoreset=False)
    vec.reset(seed=2)
    total = np.zeros(n)
    for fraction in paper_fractions():
        total += vec.step(np.full((n, 1), fraction, np.float32)).rewards
    shortfall = vec.shortfall
    assert abs(shortfall.mean() - EXPECTED) < 3 * np.sqrt(VARIANCE / n)
    assert abs(shortfall.var() - VARIANCE) < 3 * VARIANCE * np.sqrt(2 / n)
    # negative controls: the variance of shares held before each slice, and a cost without the impact of others' slices
    before = np.array([1e6, *LEFT[:-1]])
    assert abs(shortfall.var() - 0.95**2 * (before**2).sum()) > 30 * VARIANCE * np.sqrt(2 / n)
    assert abs(shortfall.mean() - (EXPECTED - 0.125e-6 * ((before - LEFT) ** 2).sum())) > 3 * np.sqrt(VARIANCE / n)
    # rewards are the shortfall and the risk term, which is the same on every path: lambda V
    risk = (UTILITY - EXPECTED) * 1e4 / VALUE
    np.testing.assert_allclose(total, -shortfall * 1e4 / VALUE - risk, atol=1e-4)


# ---- identities of every path ---------------------------------------------------------------------


@st.composite
def situations(draw: Any) -> tuple[dict[str, Any], list[float]]:
    steps = draw(st.integers(1, 12))
    capped = draw(st.booleans())
    arguments = {
        "initial_inventory": draw(st.floats(1.0, 1e7)),
        "s0": draw(st.floats(1.0, 1000.0)),
        "sigma": draw(st.floats(0.0, 20.0)),
        "total_time": draw(st.floats(0.1, 30.0)),
        "n_steps": steps,
        "permanent_impact": draw(st.floats(0.0, 1e-6)),
        "temporary_impact": draw(st.floats(0.0, 1e-5)),
        "fixed_cost": draw(st.floats(0.0, 1.0)),
        "risk_aversion": 0.0,
        "side": draw(st.sampled_from(["sell", "buy"])),
        "max_participation": draw(st.floats(0.01, 1.0)) if capped else None,
        "volume": draw(st.lists(st.floats(0.0, 1e7), min_size=steps, max_size=steps)) if capped else None,
    }
    fractions = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
    return arguments, draw(st.lists(fractions, min_size=steps, max_size=steps))


@settings(max_examples=200)
@given(situations())
def test_cash_shares_parts_and_rewards_add_up(situation: tuple[dict[str, Any], list[float]]) -> None:
    arguments, fractions = situation
    env = ready(**arguments)
    side = 1 if arguments["side"] == "sell" else -1
    parent, arrival = arguments["initial_inventory"], arguments["s0"]
    cash = traded = paid = rewards = 0.0
    results = run(env, fractions)
    for step, result in enumerate(results):
        info = result.info
        traded += info["shares_sold"]
        cash += info["shares_sold"] * info["execution_price"]
        paid += info["shares_sold"] * abs(info["execution_price"])
        rewards += result.reward
        if arguments["volume"] is not None:
            assert 0 <= info["shares_sold"] <= arguments["max_participation"] * arguments["volume"][step]
        # U93: fills and what is left are the parent order
        assert traded + info["inventory"] == pytest.approx(parent, rel=1e-14) and info["inventory"] >= 0.0
        shortfall = side * (parent * arrival - cash - info["inventory"] * info["mid_price"])
        if result.terminated:  # what a cap left over pays spread and temporary impact at the last mid
            slope = arguments["temporary_impact"] / info["dt"]
            shortfall += info["inventory"] * (arguments["fixed_cost"] + slope * info["inventory"])
        scale = parent * (arrival + abs(info["mid_price"])) + paid + abs(shortfall)
        assert info["implementation_shortfall"] == pytest.approx(shortfall, abs=1e-14 * scale)
        bps = info["implementation_shortfall"] * 1e4 / (parent * arrival)
        scale *= 1e4 / (parent * arrival)
        assert info["shortfall_bps"] == pytest.approx(bps, abs=1e-15 * scale)
        assert sum(info[name] for name in PARTS) == pytest.approx(info["shortfall_bps"], abs=1e-15 * scale)
        assert -rewards == pytest.approx(info["shortfall_bps"], abs=1e-14 * scale)
        assert min(info[name] for name in PARTS[:3]) >= 0.0
    assert results[-1].terminated and env.elapsed_steps == len(results)


@settings(max_examples=100)
@given(situations(), st.integers(0, 2**32))
def test_buying_is_the_mirror_image_of_selling(situation: tuple[dict[str, Any], list[float]], seed: int) -> None:
    # R13: mirrored shocks, the same costs to the bit, prices mirrored at the arrival price
    arguments, fractions = situation
    shocks = np.random.default_rng(seed).standard_normal(len(fractions))
    fractions[-1] = 0.5
    for k in range(len(fractions) - 1):
        fractions[k] = min(fractions[k], 0.9)  # so that no episode ends early
    sold = play(fractions, shocks, **{**arguments, "side": "sell", "risk_aversion": 1e-6})
    bought = play(fractions, -shocks, **{**arguments, "side": "buy", "risk_aversion": 1e-6})
    for a, b in zip(sold, bought, strict=True):
        for name in ("reward", "shares", "inventory", "shortfall", "bps", *PARTS):
            assert a[name] == b[name], name
        scale = 1e-12 * (arguments["s0"] + abs(a["mid"]) + abs(a["price"]))
        for name in ("mid", "price"):
            assert a[name] + b[name] == pytest.approx(2 * arguments["s0"], abs=scale)


# ---- participation --------------------------------------------------------------------------------

THIN: dict[str, Any] = {
    "initial_inventory": 200.0,
    "s0": 10.0,
    "sigma": 0.0,
    "total_time": 3.0,
    "n_steps": 3,
    "permanent_impact": 0.0,
    "temporary_impact": 0.01,
    "fixed_cost": 0.1,
    "risk_aversion": 0.0,
    "max_participation": 0.5,
    "volume": (100.0, 0.0, 40.0),
}


def test_no_slice_trades_more_than_its_share_of_the_volume_and_the_rest_is_charged_at_the_end() -> None:
    env = ready(**THIN)
    results = run(env, [1.0, 1.0, 0.0])
    assert [result.info["shares_sold"] for result in results] == [50.0, 0.0, 20.0]
    assert [result.terminated for result in results] == [False, False, True]
    # U93: a step without volume fills nothing, at no cost
    empty = results[1]
    assert empty.reward == 0.0 and empty.info["execution_price"] == empty.info["mid_price"] == 10.0
    # .1 * 70 + .01 * (50^2 + 20^2) = 36; the 130 left over: .1 * 130 + .01 * 130^2 = 182
    assert results[-1].info["inventory"] == env.inventory == 130.0
    assert results[-1].observation.tolist() == [np.float32(0.65), 0.0, 0.0]
    assert results[-1].info["implementation_shortfall"] == env.shortfall == pytest.approx(218.0)
    assert sum(result.reward for result in results) == pytest.approx(-218.0 * 1e4 / 2000.0)


def test_what_is_left_over_is_valued_at_the_last_price() -> None:
    free = {"temporary_impact": 0.0, "fixed_cost": 0.0, "permanent_impact": 0.01, "max_participation": 0.25}
    results = run(ready(**{**THIN, **free}), [1.0, 1.0, 1.0])
    # 25, 0 and 10 shares move the mid by .01 each: 9.75, 9.75, 9.65
    # 200 * 10 - 25 * 10 - 10 * 9.75 - 165 * 9.65
    assert results[-1].info["implementation_shortfall"] == pytest.approx(2000 - 250 - 97.5 - 165 * 9.65)


def test_leaving_shares_over_is_never_cheaper_than_trading_them() -> None:
    # permanent impact is nil and volume plenty in the first step: whoever waits pays for it
    arguments = {**THIN, "volume": (1000.0, 0.0, 0.0)}
    costs = [run(ready(**arguments), [a, 0.0, 0.0])[-1].info["implementation_shortfall"] for a in (0.0, 0.5, 1.0)]
    # at once or left over: .1 * 200 + .01 * 200^2 either way; half and half: 20 + .01 * 2 * 100^2
    assert costs == pytest.approx([420.0, 220.0, 420.0])


def test_one_volume_holds_for_every_step() -> None:
    results = run(ready(**{**THIN, "volume": 60}), [1.0, 0.1, 0.0])
    assert [result.info["shares_sold"] for result in results] == pytest.approx([30.0, 17.0, 30.0])


def test_without_a_cap_volume_changes_nothing() -> None:
    results = run(ready(**{**THIN, "max_participation": None}), [1.0])
    assert results[0].terminated and results[0].info["shares_sold"] == 200.0
