"""The cheaper policy is that of Stable-Baselines3: the same draws, densities and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from stable_baselines3.common.distributions import DiagGaussianDistribution  # noqa: E402

from sekai.safety.learners import SafetyPPO  # noqa: E402
from sekai.safety.learners.gaussian import DiagGaussian, InPlaceTanh  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv  # noqa: E402
from tests.safety.chain import Walk  # noqa: E402


@pytest.mark.parametrize("rows", [1, 100])
def test_draws_densities_and_entropies_are_those_of_sb3(rows: int) -> None:
    mean, log_std = torch.linspace(-2, 2, 2 * rows).reshape(rows, 2), torch.tensor([0.3, -0.7])
    theirs, ours = (cls(2).proba_distribution(mean, log_std) for cls in (DiagGaussianDistribution, DiagGaussian))
    drawn = []
    for made in (theirs, ours):
        torch.manual_seed(0)
        drawn.append(made.get_actions())
    torch.testing.assert_close(*drawn)
    torch.testing.assert_close(ours.log_prob(drawn[0]), theirs.log_prob(drawn[0]))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    torch.testing.assert_close(ours.get_actions(deterministic=True), mean)
    torch.testing.assert_close(ours.distribution.stddev, theirs.distribution.stddev)


def test_a_policy_that_has_diverged_is_not_taken_for_a_wrong_margin() -> None:
    model = SafetyPPO("MlpPolicy", Walk(box=True), n_steps=8, batch_size=24, seed=0, device="cpu")
    with torch.no_grad():
        model.policy.action_net.bias.fill_(torch.nan)
    message = "^The policy gives actions that are not finite: its weights are not, or what it observed is not"
    with pytest.raises(ValueError, match=message):
        model.learn(24)
    for deterministic in (True, False):
        with pytest.raises(ValueError, match=message):
            model.predict(model.env.reset(), deterministic=deterministic)


def test_a_policy_made_cheaper_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def learned() -> Any:
        env = SafetyTensorEnv(8, "DoubleIntegrator")
        return SafetyPPO("MlpPolicy", env, n_steps=16, batch_size=64, seed=0, device="cpu").learn(256)

    cheaper = learned()
    kinds = {type(part) for part in cheaper.policy.modules()}
    assert InPlaceTanh in kinds and torch.nn.Tanh not in kinds
    monkeypatch.setattr("sekai.safety.learners.on_policy.make_cheaper", lambda policy: None)
    plain = learned()
    assert torch.nn.Tanh in {type(part) for part in plain.policy.modules()}
    for name, weights in plain.policy.state_dict().items():
        np.testing.assert_allclose(cheaper.policy.state_dict()[name], weights, atol=1e-4, err_msg=name)
