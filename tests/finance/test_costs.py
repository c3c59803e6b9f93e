"""Cost models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.finance import ProportionalCost
from sekai.finance.costs import as_cost_model, choose_cost_model


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
