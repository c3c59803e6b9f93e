"""Market making in closed form, against hand numbers, differential equations and what is lost in rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sekai.finance import (
    avellaneda_stoikov_action,
    avellaneda_stoikov_depths,
    cartea_jaimungal_depths,
    cartea_jaimungal_value,
    fixed_spread_depths,
    glft_approximate_depths,
    glft_depths,
    glft_stationary_depths,
)

QUOTES: Any = {"sigma": 2.0, "fill_decay": 1.5, "risk_aversion": 0.1}
MARKET: Any = {"fill_intensity": 140.0, **QUOTES}
PENALTIES: Any = {"fill_intensity": 140.0, "fill_decay": 1.5, "running_penalty": 0.02, "terminal_penalty": 0.01}


def test_avellaneda_and_stoikov_by_hand() -> None:
    # risk 0.1 * 4 * 1 = 0.4; half the spread 0.2 + 10 ln(1 + 0.1 / 1.5) = 0.2 + 0.645385 = 0.845385
    # two units long: the reservation price is 0.8 below the mid price
    assert avellaneda_stoikov_depths(2, 1.0, **QUOTES) == pytest.approx([1.645385, 0.045385], abs=1e-6)
    assert avellaneda_stoikov_depths(-2, 1.0, **QUOTES) == pytest.approx([0.045385, 1.645385], abs=1e-6)
    # at the end inventory does not matter
    assert avellaneda_stoikov_depths(2, 0.0, **QUOTES) == pytest.approx([0.645385, 0.645385], abs=1e-6)
    # the spread of the paper's tables, at the start: 1.492 on average over the episode
    assert avellaneda_stoikov_depths(0, 0.5, **QUOTES).sum() == pytest.approx(1.4908, abs=1e-4)
    many = avellaneda_stoikov_depths(np.arange(-3, 4), np.linspace(0, 1, 5)[:, None], **QUOTES)
    assert many.shape == (5, 7, 2) and many[4, 5] == pytest.approx([1.645385, 0.045385], abs=1e-6)


def test_as_actions_quotes_stay_in_range() -> None:
    actions = avellaneda_stoikov_action([0, 4, -20], 1.0, **QUOTES, max_offset=5.0)
    assert actions == pytest.approx(np.array([[0.845385, 0.845385], [2.445385, 0.0], [0.0, 5.0]]), abs=1e-6)
    assert fixed_spread_depths([0, 3, -3], half_spread=0.7).tolist() == [[0.7, 0.7]] * 3


def test_the_golden_numbers_of_cartea_and_jaimungal() -> None:
    value = cartea_jaimungal_value(1.0, max_inventory=3, **PENALTIES)
    golden = [62.88351977562743, 63.29428767953804, 63.473724044822696, 63.526944266790174]
    assert value == pytest.approx(golden + golden[-2::-1], rel=1e-13)
    depths = cartea_jaimungal_depths(1.0, max_inventory=3, **PENALTIES)
    bids = [
        0.2558987627560564, 0.4872303013820082, 0.613446444699188,
        0.7198868886341453, 0.8461030319513322, 1.0774345705772697,
    ]  # fmt: skip
    assert depths[:-1, 0] == pytest.approx(bids, abs=2e-14)
    assert depths[1:, 1] == pytest.approx(bids[::-1], abs=2e-14)
    # nobody buys beyond the limit
    assert depths[-1, 0] == math.inf and depths[0, 1] == math.inf
    # the two depths of a pair of neighbours add up to 2 / k: h(q+1) - h(q) enters with both signs
    assert depths[:-1, 0] + depths[1:, 1] == pytest.approx(np.full(6, 2 / 1.5), rel=1e-13)


def slope(h: Any, penalty: float, units: float = 1.0, intensity: float = 140.0, decay: float = 1.5) -> Any:
    """dh/d(T - t) = -phi q^2 + sum over sides of max_d A exp(-k d) (m d + dh), at d = 1 / k - dh / m."""
    limit = len(h) // 2
    inventory = units * np.arange(-limit, limit + 1)
    gain = np.diff(h)
    fills = np.zeros_like(h)
    for side, change in ((slice(None, -1), gain), (slice(1, None), -gain)):
        depth = 1 / decay - change / units
        fills[side] += intensity * np.exp(-decay * depth) * (units * depth + change)
    return -penalty * inventory**2 + fills


def integrate(h: Any, time: float, steps: int, **market: Any) -> Any:
    dt = time / steps
    for _ in range(steps):
        a = slope(h, **market)
        b = slope(h + dt / 2 * a, **market)
        c = slope(h + dt / 2 * b, **market)
        h = h + dt / 6 * (a + 2 * b + 2 * c + slope(h + dt * c, **market))
    return h


def test_the_value_solves_the_hamilton_jacobi_bellman_equation() -> None:
    start = -0.01 * np.arange(-6, 7.0) ** 2
    h = integrate(start, 0.5, 4000, penalty=0.3)
    found = cartea_jaimungal_value(0.5, max_inventory=6, **{**PENALTIES, "running_penalty": 0.3})
    assert found == pytest.approx(h, rel=1e-10)
    # M with A in place of A / e, a plausible slip
    wrong = cartea_jaimungal_value(
        0.5, max_inventory=6, **{**PENALTIES, "running_penalty": 0.3, "fill_intensity": 140 * math.e}
    )
    assert wrong != pytest.approx(h, rel=0.1)


def test_orders_of_several_units_are_a_change_of_units() -> None:
    m = 3.0
    h = integrate(-0.01 * (m * np.arange(-4, 5)) ** 2, 0.3, 4000, penalty=0.05, units=m)
    scaled: Any = {"fill_decay": 1.5 / m, "running_penalty": 0.05 * m**2, "terminal_penalty": 0.01 * m**2}
    found = cartea_jaimungal_value(0.3, max_inventory=4, fill_intensity=140.0, **scaled)
    assert found == pytest.approx(h, rel=1e-10)


def test_the_value_at_the_end_is_the_penalty_and_long_before_grows_by_the_largest_eigenvalue() -> None:
    end, early, earlier = cartea_jaimungal_value([0.0, 40.0, 41.0], max_inventory=5, **PENALTIES)
    squares = np.arange(-5, 6.0) ** 2
    assert end == pytest.approx(-0.01 * squares, abs=1e-15)
    matrix = np.diag(-0.02 * 1.5 * squares) + 140 / math.e * (np.eye(11, k=1) + np.eye(11, k=-1))
    assert earlier - early == pytest.approx(np.full(11, np.linalg.eigvalsh(matrix)[-1] / 1.5), rel=1e-9)


def test_without_penalties_and_limits_everyone_quotes_at_one_over_k() -> None:
    free: Any = {**PENALTIES, "running_penalty": 0.0, "terminal_penalty": 0.0}
    depths = cartea_jaimungal_depths(0.01, max_inventory=30, **free)
    assert depths[28:33] == pytest.approx(np.full((5, 2), 1 / 1.5), rel=1e-12)


def test_times_are_tabulated_as_if_alone() -> None:
    times = [0.7, 0.0, 0.3, 0.7, 2.0]
    table = glft_depths(times, max_inventory=4, **MARKET)
    assert table.shape == (5, 9, 2)
    for time, rows in zip(times, table, strict=True):
        assert rows == pytest.approx(glft_depths(time, max_inventory=4, **MARKET), rel=1e-12)
    value = cartea_jaimungal_value(times, max_inventory=4, **PENALTIES)
    assert value[2] == pytest.approx(cartea_jaimungal_value(0.3, max_inventory=4, **PENALTIES), rel=1e-12)


def test_the_exact_quotes_of_exponential_utility() -> None:
    stationary = glft_stationary_depths(max_inventory=30, **MARKET)
    assert stationary[28:33, 0] == pytest.approx([0.5667, 0.6191, 0.6716, 0.7241, 0.7764], abs=5e-5)
    approximate = glft_approximate_depths(np.arange(-2, 3), **MARKET)
    assert approximate[:, 0] == pytest.approx([0.5678, 0.6195, 0.6712, 0.7230, 0.7747], abs=5e-5)
    # w: 4 * 0.1 / (2 * 1.5 * 140) * (1.066667)^16 = 9.5238e-4 * 2.808436 = 2.674701e-3, root 0.0517175
    # c = 0.645385; bid at 0: c + w / 2
    assert approximate[2, 0] == pytest.approx(0.645385 + 0.0517175 / 2, abs=1e-6)
    # bids of q are asks of -q
    for depths in (stationary, approximate):
        assert depths[:, 0] == pytest.approx(depths[::-1, 1], rel=1e-12)
    # a time unit before the end two units long: 0.776 where Avellaneda and Stoikov say 1.645; near it both agree
    exact = glft_depths([1.0, 0.02], max_inventory=30, **MARKET)[:, 32, 0]
    assert exact == pytest.approx([0.7764, 0.6652], abs=5e-5)
    assert avellaneda_stoikov_depths(2, [1.0, 0.02], **QUOTES)[:, 0] == pytest.approx([1.6454, 0.6654], abs=5e-5)


def test_exponential_utility_solves_its_differential_equation() -> None:
    # theta = ln(v) / k solves d theta/d(T - t) = -gamma sigma^2 q^2 / 2 + eta / k (exp(-k (b - c)) + exp(-k (a - c)))
    decay, gamma, limit = 1.5, 0.1, 5
    eta = 140.0 * (1 + gamma / decay) ** -(1 + decay / gamma)
    squares = np.arange(-limit, limit + 1.0) ** 2

    def change(theta: Any) -> Any:
        up = np.append(np.exp(decay * np.diff(theta)), 0.0)
        down = np.append(0.0, np.exp(-decay * np.diff(theta)))
        return -gamma * 4.0 * squares / 2 + eta / decay * (up + down)

    theta, dt = np.zeros(2 * limit + 1), 1e-4
    for _ in range(4000):
        a = change(theta)
        b = change(theta + dt / 2 * a)
        c = change(theta + dt / 2 * b)
        theta = theta + dt / 6 * (a + 2 * b + 2 * c + change(theta + dt * c))
    depths = glft_depths(0.4, max_inventory=limit, **MARKET)
    assert depths[:-1, 0] == pytest.approx(-np.diff(theta) + math.log1p(gamma / decay) / gamma, rel=1e-9)


@pytest.mark.parametrize("limit", [1, 3, 50, 80])
def test_far_from_the_end_the_exact_quotes_are_the_stationary_ones(limit: int) -> None:
    late = glft_depths(8.0, max_inventory=limit, **MARKET)
    stationary = glft_stationary_depths(max_inventory=limit, **MARKET)
    inside = np.isfinite(stationary)
    assert np.array_equal(inside, np.isfinite(late)) and inside.sum() == 4 * limit
    assert late[inside] == pytest.approx(stationary[inside], rel=1e-9, abs=1e-9)


def test_an_eigenvalue_decomposition_loses_the_outer_inventories() -> None:
    squares = np.arange(-50, 51.0) ** 2
    eta = 140.0 * (1 + 0.1 / 1.5) ** -16
    matrix = np.diag(1.5 * 0.1 * 4 / 2 * squares) - eta * (np.eye(101, k=1) + np.eye(101, k=-1))
    ground = np.abs(np.linalg.eigh(matrix)[1][:, 0])
    naive = np.log(ground[:-1] / ground[1:]) / 1.5 + math.log1p(0.1 / 1.5) / 0.1
    exact = glft_stationary_depths(max_inventory=50, **MARKET)[:-1, 0]
    assert naive[45:55] == pytest.approx(exact[45:55], abs=1e-6)
    assert abs(naive[:5] - exact[:5]).max() > 0.1
    # the exact ones go on as they should: the larger the inventory, the farther the bid
    assert (np.diff(exact) > 0).all()


def test_depths_that_cannot_be_quoted_are_refused_with_the_reason() -> None:
    times = np.linspace(0.0, 1.0, 11)
    fine = cartea_jaimungal_depths(times, max_inventory=10, **PENALTIES, max_offset=1.14)
    inside = fine[np.isfinite(fine)]
    assert inside.min() > 0.194 and inside.max() < 1.139
    with pytest.raises(
        ValueError,
        match=r"terminal_penalty=0.05 and max_inventory=10 lead to a depth of -0.2833 for the bid at inventory -10 "
        r"with time 0 left, outside \[0, inf\]: that cannot be quoted, and the closed form is optimal only where every",
    ):
        cartea_jaimungal_depths(times, max_inventory=10, **{**PENALTIES, "terminal_penalty": 0.05})
    with pytest.raises(ValueError, match=r"depth of -0\.\d+ for the bid at inventory -10 with time 1 left"):
        cartea_jaimungal_depths(1.0, max_inventory=10, **{**PENALTIES, "running_penalty": 0.5})
    with pytest.raises(ValueError, match=r"depth of 1\.\d+ for .* outside \[0, 1.0\].*or allow a larger max_offset"):
        cartea_jaimungal_depths(1.0, max_inventory=10, **PENALTIES, max_offset=1.0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: avellaneda_stoikov_depths(0, -1.0, **QUOTES), ValueError, "time_left reaches down to -1.0"),
        (lambda: avellaneda_stoikov_depths(math.nan, 1.0, **QUOTES), ValueError, "inventory is nan"),
        (lambda: avellaneda_stoikov_depths("2", 1.0, **QUOTES), TypeError, "inventory is '2'; expected numbers"),
        (lambda: glft_depths(1.0, max_inventory=0, **MARKET), ValueError, "max_inventory is 0; expected an int of at"),
        (lambda: glft_depths(1.0, max_inventory=2.0, **MARKET), TypeError, "max_inventory is 2.0"),  # type: ignore[arg-type]
        (lambda: glft_depths([[1.0]], max_inventory=2, **MARKET), ValueError, r"time_left has shape \(1, 1\)"),
        (lambda: glft_depths(1.0, max_inventory=2, **{**MARKET, "sigma": -1}), ValueError, "sigma is -1"),
        (
            lambda: glft_stationary_depths(max_inventory=2, **{**MARKET, "sigma": 0.0}),
            ValueError,
            "sigma is 0.0; expected a number above 0",
        ),
        (
            lambda: cartea_jaimungal_value(0.01, max_inventory=300, **PENALTIES),
            ValueError,
            "max_inventory=300 is too large: the values of the outer inventories leave the range of floats",
        ),
        (lambda: fixed_spread_depths(0, half_spread=-0.1), ValueError, "half_spread is -0.1"),
    ],
)
def test_crooked_arguments_are_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
