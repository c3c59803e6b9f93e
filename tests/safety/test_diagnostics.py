"""Shares that the log shows, by hand."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from sekai.safety.diagnostics import active_branches, value_shares  # noqa: E402
from sekai.safety.learners import ReachAvoidDQN, SafetyPPO  # noqa: E402
from tests.safety.chain import Walk  # noqa: E402


def t(*numbers: Any) -> Any:
    return torch.tensor(numbers)


def test_values_of_at_least_0_and_values_that_no_margin_has() -> None:
    # g between -.5 and 2: of 2.5, 0, -.2 and -.6 the first and the last lie outside, the first two are certified
    assert value_shares(t(-0.5, 2.0, 1.0, 1.0), t(2.5, 0.0, -0.2, -0.6)) == {
        "share_certified": 0.5,
        "share_outside_g": 0.5,
    }


def test_the_branch_that_decides_in_each_row() -> None:
    g, v = t(1.0, 1.0, 1.0, 1.0, 1.0), t(2.0, 0.5, 0.5, -1.0, 0.0)
    on = t(True, True, True, True, False)
    # avoid, min(g, v): g in the first, v in the next three; the last row is an end
    assert active_branches(g, v, on, None) == {"branch_g": 0.25, "branch_next": 0.75}
    # reach-avoid with l -1, .7, .2, -.5: min(1, max(l, v)) is g, l, v, l
    found = active_branches(g, v, on, t(-1.0, 0.7, 0.2, -0.5, 0.0))
    assert found == {"branch_g": 0.25, "branch_next": 0.25, "branch_l": 0.5}


@pytest.mark.parametrize("cls", [SafetyPPO, ReachAvoidDQN])
def test_learners_log_them_with_the_failure_value_and_its_risk(cls: Any) -> None:
    avoid = cls is SafetyPPO
    options: dict[str, Any] = {"n_steps": 8, "batch_size": 24} if avoid else {"learning_starts": 6, "train_freq": 1}
    model = cls("MlpPolicy", Walk(target=not avoid), seed=0, device="cpu", policy_kwargs={"net_arch": [8]}, **options)
    model.learn(24, log_interval=None)
    logged = {name.removeprefix("safety/") for name in model.logger.name_to_value if name.startswith("safety/")}
    assert {"gamma", "share_certified", "share_outside_g", "branch_g", "branch_next"} <= logged
    if avoid:
        assert {"failure_value", "risk", "value_at_start"} <= logged and "branch_l" not in logged
        # 4.5 / (4.5 + 1.67284), see the rule of failure values
        assert model.logger.name_to_value["safety/risk"] == pytest.approx(0.729, abs=1e-3)
    else:
        assert "branch_l" in logged and "failure_value" not in logged
