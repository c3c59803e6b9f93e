"""Which way the players of a game are moved, by which rows, and by which numbers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from sekai.safety.learners import SafetyPPO2P, SafetySAC2P  # noqa: E402
from sekai.safety.systems import DoubleIntegrator  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv  # noqa: E402

SIZE = 10


def small(cls: Any, **more: Any) -> Any:
    own = {"n_steps": 10, "n_epochs": 1} if "PPO" in cls.__name__ else {"learning_starts": 20, "gradient_steps": 1}
    env = SafetyTensorEnv(SIZE, DoubleIntegrator(force_bound=0.5), disturbance="player")
    base = {"seed": 0, "device": "cpu", "league_size": 1, "policy_kwargs": {"net_arch": [8]}}
    return cls("MlpPolicy", env, **{**base, **own, **more})


def test_the_controller_of_sac_ascends_and_its_disturbance_descends() -> None:
    learner, rows = small(SafetySAC2P, learning_rate=0.02, ent_coef=0.0), torch.zeros((20, 2))
    del learner.critic  # registered below as a plain function: Q = u + d
    learner.critic = lambda observations, actions: (actions.sum(1, keepdim=True),) * 2
    for _ in range(40):
        learner._update_controller(rows)
        learner._update_disturbance(rows)
    controls = learner.actor(rows, deterministic=True)
    assert controls.min() > 0.5
    assert learner._mode_of(learner.disturbance, learner._met(rows, controls)).max() < -0.5


def test_targets_of_sac_are_those_of_the_critics_that_follow_and_all_rates_follow_the_schedule() -> None:
    learner = small(SafetySAC2P, learning_rate=lambda left: 1e-3 * left, initial_value=None).learn(60)
    for network in learner.critic_target.q_networks:
        torch.nn.init.zeros_(network[-1].weight)
        torch.nn.init.constant_(network[-1].bias, -0.7)
    found: list[Any] = []
    targets = learner._targets
    learner._targets = lambda batch, after: (found.append(after), targets(batch, after))[1]
    learner._current_progress_remaining = 0.25
    learner.train(1, batch_size=8)
    assert found[0].tolist() == [[pytest.approx(-0.7)]] * 8
    optimizers = [learner.actor, learner.critic, learner.disturbance, learner.temperature]
    assert [network.optimizer.param_groups[0]["lr"] for network in optimizers] == [2.5e-4] * 4


def test_each_player_of_ppo_learns_from_the_games_that_it_plays() -> None:
    learner, found = small(SafetyPPO2P), {"mine": [], "theirs": []}
    controller, disturbance = learner._update_controller, learner._update_disturbance

    def of_controller(rows: Any, batch: Any, mine: Any) -> Any:
        found["mine"] += zip(rows["match"][batch].tolist(), mine.tolist(), strict=True)
        return controller(rows, batch, mine)

    def of_disturbance(rows: Any, batch: Any) -> Any:
        found["theirs"] += rows["match"][batch].tolist()
        return disturbance(rows, batch)

    learner._update_controller, learner._update_disturbance = of_controller, of_disturbance
    learner.learn(10 * SIZE)
    # past_controller_0, current, past_disturbance_0, zero, random: int(10 * 0.5 / 4) = 1 slot each, 6 of the current
    assert sorted(set(found["mine"])) == [(0, 0.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]
    assert len(found["mine"]) == 100 and sorted(found["theirs"]) == [0] * 10 + [1] * 60


def test_rows_of_no_weight_do_not_move_a_player() -> None:
    learner = small(SafetyPPO2P)
    learner._clip = 0.2
    log_ratio = torch.zeros(4, requires_grad=True)
    loss = learner._clipped(log_ratio, torch.tensor([1.0, -1.0, 50.0, 7.0]), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    loss.backward()
    # of the two rows the mean is 0 and the spread 1: -1/2 and 1/2 of the loss
    assert log_ratio.grad.tolist() == [pytest.approx(-0.5), pytest.approx(0.5), 0.0, 0.0]


@pytest.mark.parametrize("cls", [SafetyPPO2P, SafetySAC2P])
def test_the_disturbance_sees_what_the_policy_sees_with_the_control_behind_it(cls: Any) -> None:
    learner = small(cls, normalize_observations=True).learn(100)
    rows, controls = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.25]])
    met = learner._met(rows, controls)
    assert torch.equal(met[:, :2], learner.policy.normalizer(rows)) and not torch.allclose(met[:, :2], rows)
    assert met[0, 2] == 0.25
