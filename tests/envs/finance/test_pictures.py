"""What the pictures show, read back from the axes of their figures: curves, trades, titles, labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.dates import date2num

import sekai
from sekai.finance import MarketData

DAYS = np.datetime64("2020-01-01") + np.arange(7)
PRICES = [100.0, 110.0, 121.0, 100.0, 120.0, 90.0, 90.0]
FLOAT32 = 1e-6  # relative; returns before the start are kept as they are observed


def trading(**given: Any) -> Any:
    """Two rows of lookback, four steps from 121 on, without costs."""
    defaults = {"data": MarketData(PRICES, DAYS), "lookback": 2, "episode_length": 4, "transaction_cost": 0.0}
    return sekai.make("Trading-v0", render_mode="rgb_array", **{**defaults, **given}).unwrapped


def execution(**given: Any) -> Any:
    """100 units at 10 in two slices; nothing moves by chance, and equal slices are optimal."""
    market = {"initial_inventory": 100.0, "s0": 10.0, "sigma": 0.0, "total_time": 2.0, "n_steps": 2}
    impact = {"permanent_impact": 0.002, "temporary_impact": 0.01, "fixed_cost": 0.05, "risk_aversion": 0.0}
    return sekai.make("OptimalExecution-v0", render_mode="rgb_array", **{**market, **impact, **given}).unwrapped


def figure_of(env: Any, slot: int = 0) -> Any:
    template = env.template if hasattr(env, "template") else env
    return env._recorder.figure(slot, template)


def panels(env: Any, slot: int = 0) -> list[Any]:
    axes: list[Any] = figure_of(env, slot).axes
    return axes


def labelled(axes: Any, label: str) -> Any:
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return line


def points(line: Any) -> list[tuple[Any, float]]:
    x = np.asarray(line.get_xdata())
    return list(zip(x.tolist(), np.asarray(line.get_ydata()).tolist(), strict=True))


def curves(axes: Any) -> list[list[tuple[Any, float]]]:
    """Lines of more than one point that are neither markers nor rules across a panel."""
    rules = [line for line in axes.lines if line.get_transform() != axes.transData]
    return [
        points(line)
        for line in axes.lines
        if line not in rules and line.get_linestyle() != "None" and len(line.get_xdata()) > 1
    ]


def dated(rows: slice, values: list[float]) -> list[tuple[Any, float]]:
    return list(zip(DAYS[rows].tolist(), values, strict=True))


def same(found: list[tuple[Any, float]], expected: list[tuple[Any, float]], rel: float = 1e-12) -> bool:
    return [x for x, _ in found] == [x for x, _ in expected] and [y for _, y in found] == pytest.approx(
        [y for _, y in expected], rel=rel
    )


def titles(env: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in panels(env)]


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def shaded(axes: Any) -> tuple[float, float]:
    (patch,) = axes.patches
    x = patch.get_path().transformed(patch.get_patch_transform()).vertices[:, 0]
    return float(x.min()), float(x.max())


# ---- Trading-v0 -----------------------------------------------------------------------------------


def played_trading(**given: Any) -> Any:
    env = trading(**given)
    env.reset()
    for action in (2, 2, 0, 1):  # long, long, short, flat
        env.step(action)
    return env


def test_the_picture_of_trading_has_the_lookback_before_the_episode() -> None:
    env = played_trading()
    top, middle, bottom = panels(env)
    assert titles(env) == ["Price", "Equity", "Exposure"]
    assert bottom.get_xlabel() == "Date; the lookback window is shaded"
    episode, earlier = curves(top)
    assert same(episode, dated(slice(2, 7), [121.0, 100.0, 120.0, 90.0, 90.0]))
    assert same(earlier, dated(slice(0, 3), [100.0, 110.0, 121.0]), FLOAT32)
    for axes in (top, middle, bottom):
        assert shaded(axes) == (date2num(DAYS[0]), date2num(DAYS[2]))
        assert axes.lines[-1].get_xdata() == [DAYS[2], DAYS[2]]  # a line at the first decision


def test_the_picture_of_trading_marks_each_trade_where_it_fills() -> None:
    top, middle, bottom = panels(played_trading())
    # long at 121 and again at 100, which trades nothing; short at 120; what was short is bought at 90
    assert same(points(labelled(top, "buys")), [(DAYS[2].item(), 121.0), (DAYS[5].item(), 90.0)])
    assert same(points(labelled(top, "sells")), [(DAYS[4].item(), 120.0)])
    assert [labelled(top, name).get_marker() for name in ("buys", "sells")] == ["^", "v"]
    assert legend(top) == ["buys", "sells"]
    half = 100 / 121 * 1.2
    (equity,) = curves(middle)
    assert same(equity, dated(slice(2, 7), [1.0, 100 / 121, half, half * 1.25, half * 1.25]))  # short from 120 to 90
    (exposure,) = curves(bottom)
    assert same(exposure, dated(slice(2, 7), [0.0, 1.0, 1.0, -0.75 / 1.25, 0.0]))
    late = panels(played_trading(execution="next_close"))[0]
    assert same(points(labelled(late, "buys")), [(DAYS[3].item(), 100.0), (DAYS[6].item(), 90.0)])
    assert same(points(labelled(late, "sells")), [(DAYS[5].item(), 90.0)])


def test_rows_without_dates_are_numbered_in_the_picture() -> None:
    env = sekai.make("Trading-v0", lookback=5, render_mode="rgb_array").unwrapped
    env.reset(seed=1)
    seen = env.price_history
    env.step(1)
    top, _, bottom = panels(env)
    _, earlier = curves(top)
    assert same(earlier, list(enumerate(seen.tolist())), FLOAT32)
    assert bottom.get_xlabel() == "Row; the lookback window is shaded"
    assert shaded(top) == (0.0, 5.0)


def test_every_slot_draws_the_lookback_of_its_own_episode() -> None:
    given = {"data": MarketData(PRICES, DAYS), "lookback": 2, "episode_length": 2, "render_mode": "rgb_array"}
    with sekai.make_vec("Trading-v0", 2, vectorization_mode="native", **given) as vec:
        vec.reset(options=[{"start": 4}, {"start": 3}])
        assert [points(panels(vec, slot)[0].lines[1])[-1][0] for slot in (0, 1)] == [DAYS[4].item(), DAYS[3].item()]
        for _ in range(2):
            result = vec.step(np.array([1, 1]))
        assert result.dones.all()  # and the next episodes have begun
        begun = [vec.timestamp[slot] for slot in (0, 1)]
        for slot, start in enumerate(begun):
            row = DAYS.tolist().index(start.item())
            (earlier,) = curves(panels(vec, slot)[0])
            assert same(earlier, dated(slice(row - 2, row + 1), PRICES[row - 2 : row + 1]), FLOAT32)


@pytest.mark.parametrize("id", ["Trading-v0", "Portfolio-v0"])
def test_a_slot_that_is_reset_alone_draws_its_own_lookback(id: str) -> None:
    prices = np.array(PRICES) if id == "Trading-v0" else np.column_stack([PRICES, PRICES])
    given = {"data": MarketData(prices, DAYS), "lookback": 2, "episode_length": 2, "render_mode": "rgb_array"}
    with sekai.make_vec(id, 3, vectorization_mode="native", **given) as vec:
        vec.reset(options={"start": 2})
        vec.reset(options={"start": 4}, mask=np.array([False, False, True]))
        for slot, start in enumerate((2, 2, 4)):
            earlier = curves(panels(vec, slot)[0])[0]
            unit = 1.0 if id == "Trading-v0" else PRICES[start]
            expected = [price / unit for price in PRICES[start - 2 : start + 1]]
            assert same(earlier, dated(slice(start - 2, start + 1), expected), FLOAT32)


@pytest.mark.parametrize("kind", ["single", "native"])
def test_after_set_state_the_lookback_is_that_of_the_restored_row(kind: str) -> None:
    def made() -> Any:
        return trading() if kind == "single" else sekai.make_vec(
            "Trading-v0", 2, data=MarketData(PRICES, DAYS), lookback=2, episode_length=3,
            vectorization_mode="native", render_mode="rgb_array", vector_kwargs={"autoreset": False},
        )  # fmt: skip

    env, other = made(), made()
    starts = [2, 3] if kind == "native" else [2]
    env.reset(options={"start": 2} if kind == "single" else [{"start": row} for row in starts])
    env.step(1 if kind == "single" else np.array([1, 1]))
    other.set_state(env.get_state())
    for slot, start in enumerate(starts):
        (earlier,) = curves(panels(other, slot)[0])
        row = start + 1
        assert same(earlier, dated(slice(row - 2, row + 1), PRICES[row - 2 : row + 1]), FLOAT32)


# ---- Portfolio-v0 ---------------------------------------------------------------------------------


def test_the_picture_of_a_portfolio_has_the_lookback_of_every_asset_and_a_tick_for_each_trade() -> None:
    prices = np.column_stack([PRICES, [8.0, 4.0, 2.0, 2.0, 4.0, 4.0, 4.0]])
    env = sekai.make(
        "Portfolio-v0", data=MarketData(prices, DAYS, assets=["A", "B"]), lookback=2, episode_length=4,
        transaction_cost=0.0, render_mode="rgb_array",
    ).unwrapped  # fmt: skip
    env.reset()
    # half in B at row 2, left alone at row 3, where B stands still; it has become 2/3 at row 4, and is sold at row 5
    for weights in ([0.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 2 / 3, 1 / 3], [0.0, 0.0, 1.0]):
        env.step(np.array(weights, np.float32))
    top, middle, bottom = panels(env)
    assert titles(env) == ["Prices, 1 at the start; trades below", "Equity", "Weights, the rest in cash"]
    earlier_a, a, earlier_b, b = curves(top)
    assert same(earlier_a, dated(slice(0, 3), [100 / 121, 110 / 121, 1.0]), FLOAT32)
    assert same(a, dated(slice(2, 7), [1.0, 100 / 121, 120 / 121, 90 / 121, 90 / 121]))
    assert same(earlier_b, dated(slice(0, 3), [4.0, 2.0, 1.0]), FLOAT32)
    assert same(b, dated(slice(2, 7), [1.0, 1.0, 2.0, 2.0, 2.0]))
    assert legend(top) == ["A", "B"]
    (ticks,) = (line for line in top.lines if line.get_marker() == "|")
    assert list(ticks.get_xdata()) == [DAYS[2], DAYS[5]]
    (equity,) = curves(middle)
    assert same(equity, dated(slice(2, 7), [1.0, 1.0, 1.5, 1.5, 1.5]), FLOAT32)
    assert len(bottom.collections) == 4  # A and B, long and short
    tallest = [float(area.get_paths()[0].vertices[:, 1].max()) for area in bottom.collections]
    assert tallest == pytest.approx([0.0, 2 / 3, 0.0, 0.0], rel=FLOAT32)
    assert shaded(bottom) == (date2num(DAYS[0]), date2num(DAYS[2]))


# ---- OptimalExecution-v0 --------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "sign", "marker"), [("sell", -1.0, "v"), ("buy", 1.0, "^")])
def test_the_picture_of_an_order_shows_its_fills(side: str, sign: float, marker: str) -> None:
    env = execution(side=side)
    env.reset()
    env.step(np.array([0.25], np.float32))
    env.step(np.array([0.0], np.float32))  # the last slice trades the rest
    top, middle, _ = panels(env)
    assert titles(env) == ["Shares left", "Price", "Implementation shortfall, bps"]
    assert points(labelled(top, "this episode")) == [(0.0, 100.0), (1.0, 75.0), (2.0, 0.0)]
    assert same(points(labelled(top, "Almgren-Chriss")), [(0.0, 100.0), (1.0, 50.0), (2.0, 0.0)])
    # 25 at 10 lose 0.05 and 0.01 * 25 each, and move the mid by 0.002 * 25; 75 there lose 0.05 and 0.75
    assert same(points(labelled(middle, "mid")), [(0.0, 10.0), (1.0, 10 + sign * 0.05), (2.0, 10 + sign * 0.2)])
    assert same(points(labelled(middle, "fills")), [(0.0, 10 + sign * 0.3), (1.0, 10 + sign * 0.85)])
    assert labelled(middle, "fills").get_marker() == marker
    assert legend(middle) == ["mid", "fills", "arrival price"]
    assert labelled(middle, "arrival price").get_ydata() == [10.0, 10.0]


def test_a_slice_without_a_fill_has_no_mark() -> None:
    env = execution()
    env.reset()
    assert points(labelled(panels(env)[1], "fills")) == []
    env.step(np.array([0.0], np.float32))
    assert points(labelled(panels(env)[1], "fills")) == []
    env.step(np.array([1.0], np.float32))
    assert same(points(labelled(panels(env)[1], "fills")), [(1.0, 10 - 0.05 - 1.0)])


def test_the_shortfall_stands_beside_that_which_the_schedule_expects() -> None:
    env = execution()
    env.reset()
    env.step(np.array([0.25], np.float32))
    env.step(np.array([1.0], np.float32))
    bottom = panels(env)[2]
    # 1000 - 25 * 9.7 - 75 * 9.95 = 11.25, then 1000 - 242.5 - 75 * 9.15 = 71.25, of 1000
    assert same(points(labelled(bottom, "this episode: 712.5")), [(0.0, 0.0), (1.0, 112.5), (2.0, 712.5)])
    # 50 sold: 0.05 * 50 + 0.01 * 50^2, and the 50 left have lost 0.002 * 50 each: 32.5; then 27.5 more
    expected = labelled(bottom, "Almgren-Chriss, expected: 600.0")
    assert same(points(expected), [(0.0, 0.0), (1.0, 325.0), (2.0, 600.0)])
    assert legend(bottom) == ["Almgren-Chriss, expected: 600.0", "this episode: 712.5"]


def test_the_band_is_a_standard_deviation_on_either_side() -> None:
    env = execution(sigma=0.1)
    env.reset(seed=0)
    (band,) = panels(env)[2].collections
    vertices = band.get_paths()[0].vertices
    # 50 left over the first unit of time move by 0.1 * 50 = 5 of 1000; nothing is left over the second
    assert {tuple(np.round(vertex, 9)) for vertex in vertices} == {
        (0.0, 0.0), (1.0, 275.0), (1.0, 375.0), (2.0, 550.0), (2.0, 650.0),
    }  # fmt: skip


def test_an_expected_curve_of_many_slices_has_few_points_and_ends_at_the_whole() -> None:
    env = execution(n_steps=1000)
    env.reset()
    # 0.002 * 100^2 / 2 + 0.05 * 100 + (0.01 - 0.002 * 0.002 / 2) * 100^2 / 2 = 10 + 5 + 49.99, of 1000
    expected = points(labelled(panels(env)[2], "Almgren-Chriss, expected: 649.9"))
    assert len(expected) == 51
    # half-way: 0.001 * (100^2 - 50^2) - 0.001 * 500 * 0.1^2 + 0.05 * 50 + 500 * 0.01 * 0.1^2 / 0.002
    assert same([expected[25], expected[50]], [(1.0, 349.95), (2.0, 649.9)])


def test_without_an_optimal_schedule_the_shortfall_stands_alone() -> None:
    env = execution(temporary_impact=1e-4)
    env.reset()
    env.step(np.array([0.5], np.float32))
    top, _, bottom = panels(env)
    assert legend(top) == ["this episode"]
    assert [text.partition(":")[0] for text in legend(bottom)] == ["this episode"]
    assert not bottom.collections


# ---- MarketMaking-v0 ------------------------------------------------------------------------------


def test_the_picture_of_market_making_marks_the_quotes_that_were_filled() -> None:
    env = sekai.make("MarketMaking-v0", render_mode="rgb_array").unwrapped
    env.action_space.seed(0)
    rows = [env.reset(seed=0).info]
    rows += [env.step(env.action_space.sample()).info for _ in range(150)]
    top, middle, bottom = panels(env)
    assert titles(env) == ["Mid price and quotes", "Inventory", "Wealth"]
    assert legend(top) == ["mid", "bid filled", "ask filled"]
    for side in ("bid", "ask"):
        marks = [(float(step), row[side]) for step, row in enumerate(rows[1:]) if row[f"{side}_filled"]]
        assert len(marks) > 5
        assert points(labelled(top, f"{side} filled")) == marks
    assert points(labelled(top, "mid")) == [(step, row["mid_price"]) for step, row in enumerate(rows)]
    assert curves(middle)[0] == [(step, row["inventory"]) for step, row in enumerate(rows)]
    assert curves(bottom)[0] == [(step, row["wealth"]) for step, row in enumerate(rows)]
