"""Cost models."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from sekai.finance import CostModel, CostSum, FixedCost, HalfSpreadCost, ProportionalCost, SquareRootImpact
from sekai.finance.costs import as_cost_model, choose_cost_model, from_plain, to_plain


def test_a_number_is_the_rate_of_a_proportional_cost() -> None:
    model = ProportionalCost(0.002)
    assert as_cost_model(0.002) == model and as_cost_model(model) is model
    assert ProportionalCost(1).rates(2).tolist() == [1.0, 1.0] and isinstance(ProportionalCost(1).rate, float)


def test_one_of_the_two_arguments_is_chosen_and_ten_basis_points_without_either() -> None:
    assert choose_cost_model(None, None) == ProportionalCost(1e-3)
    assert choose_cost_model(0.0, None) == choose_cost_model(None, 0) == ProportionalCost(0.0)
    with pytest.raises(ValueError, match=r"transaction_cost=0.001 and cost_model=0.001 were both given"):
        choose_cost_model(0.001, 0.001)


def test_every_asset_may_have_a_rate_of_its_own() -> None:
    model = ProportionalCost([0.1, 0])
    assert model.rate == (0.1, 0.0) and model == as_cost_model(np.array([0.1, 0.0])) and hash(model) is not None
    assert model.rates(2).tolist() == [0.1, 0.0]
    with pytest.raises(ValueError, match="cost_model has 2 rates; expected one for all, or 3"):
        model.rates(3)
    with pytest.raises(ValueError, match=r"transaction_cost\[1\] is -0.1"):
        choose_cost_model([0.1, -0.1], None)


@pytest.mark.parametrize(
    ("rate", "error"),
    [(-0.1, ValueError), (float("nan"), ValueError), (float("inf"), ValueError), ("0.1", TypeError), (True, TypeError)],
)
def test_rates_that_are_none_are_refused_by_name(rate: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="ProportionalCost rate is"):
        ProportionalCost(rate)
    with pytest.raises(error, match="cost_model is"):
        choose_cost_model(None, rate)
    with pytest.raises(error, match="transaction_cost is"):
        choose_cost_model(rate, None)


def test_a_cost_model_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ProportionalCost().rate = 0.5  # type: ignore[misc]


def test_costs_add_up_coefficient_by_coefficient() -> None:
    model = ProportionalCost((1e-3, 2e-3)) + FixedCost(1e-4) + (HalfSpreadCost(4e-3) + SquareRootImpact(0.02, 4.0, 0.5))
    # rates 1e-3 + 2e-3 and 2e-3 + 2e-3; impact 0.5 * 0.02 / sqrt(4)
    np.testing.assert_allclose(model.coefficients(2), [[3e-3, 4e-3], [1e-4, 1e-4], [5e-3, 5e-3]], rtol=1e-15)
    assert len(model.parts) == 4 and not model.is_proportional
    # a trade of 4 costs 3e-3 * 4 + 1e-4 + 5e-3 * 8, one of nothing costs nothing
    np.testing.assert_allclose(model.charges([[4.0, 0.0]]), [[0.012 + 1e-4 + 0.04, 0.0]], rtol=1e-15)
    other = HalfSpreadCost(4e-3) + ProportionalCost((1e-3, 2e-3))
    assert np.array_equal(
        other.coefficients(2), (ProportionalCost((1e-3, 2e-3)) + HalfSpreadCost(4e-3)).coefficients(2)
    )
    assert other.is_proportional and hash(other) is not None
    assert repr(FixedCost(0.5) + ProportionalCost(0.1)) == "ProportionalCost(rate=0.1) + FixedCost(fee=0.5)"
    assert as_cost_model(other) is other


def test_the_order_of_a_sum_does_not_matter_to_the_bit() -> None:
    # 0.1 + 0.2 + 0.3 is 0.6000000000000001 from the left and 0.6 from the right
    parts = [ProportionalCost(0.1), ProportionalCost(0.2), ProportionalCost(0.3), FixedCost(0.1)]
    total = sum(parts)
    assert isinstance(total, CostModel)
    for order in permutations(parts):
        for other in (sum(order), order[0] + (order[1] + (order[2] + order[3]))):
            assert other == total and hash(other) == hash(total) and repr(other) == repr(total)
            assert np.array_equal(other.coefficients(1), total.coefficients(1))
    assert sum([parts[0]]) is parts[0] and CostSum((CostSum((parts[3],)), parts[0])).parts == (parts[0], parts[3])


def test_numbers_of_assets_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r"CostSum parts have numbers for \['2', '3'\] assets"):
        ProportionalCost((0.1, 0.2)) + FixedCost((0.1, 0.2, 0.3))
    with pytest.raises(ValueError, match="cost_model has 2 fees; expected one for all, or 3"):
        (ProportionalCost(0.1) + FixedCost((0.1, 0.2))).coefficients(3)
    with pytest.raises(ValueError, match="cost_model has 2 volumes; expected one for all, or 1"):
        SquareRootImpact(0.1, (1.0, 2.0)).coefficients(1)
    for add in (lambda: ProportionalCost(0.1) + 0.2, lambda: 0.2 + ProportionalCost(0.1)):  # a rate or a fee?
        with pytest.raises(TypeError, match="unsupported operand"):
            add()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: FixedCost(-1.0), "FixedCost fee is -1.0"),
        (lambda: HalfSpreadCost(float("nan")), "HalfSpreadCost spread is nan"),
        (lambda: SquareRootImpact(-0.1, 1.0), "SquareRootImpact volatility is -0.1"),
        (lambda: SquareRootImpact(0.1, (1.0, 0.0)), r"SquareRootImpact volume is \(1.0, 0.0\); expected more than 0"),
        (lambda: SquareRootImpact(0.1, 1.0, float("inf")), "SquareRootImpact coefficient is inf"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_a_model_comes_back_from_plain_values() -> None:
    for model in (ProportionalCost((0.1, 0.2)), FixedCost(0.1) + SquareRootImpact((0.1, 0.2), 3.0)):
        assert from_plain(to_plain(model)) == model
