"""Learners of two players at the edges: other slots, saved models, weights of another, balls, noise, controllers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from sekai.safety.envs import SafetyEnv, SafetyVecEnv  # noqa: E402
from sekai.safety.learners import ReachAvoidPPO2P, SafetyPPO, SafetyPPO2P, SafetySAC2P, best_response  # noqa: E402
from sekai.safety.systems import BallSet, DoubleIntegrator  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv, TensorStep, TensorVecEnv  # noqa: E402
from sekai.safety.warmstart import warm_start  # noqa: E402

FORCE = DoubleIntegrator(force_bound=0.5)
BOTH = [SafetyPPO2P, SafetySAC2P]
ROWS = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)


def small(cls: Any, env: Any = None, **more: Any) -> Any:
    own = {"n_steps": 10, "n_epochs": 1} if "PPO" in cls.__name__ else {"learning_starts": 16, "gradient_steps": 1}
    base = {"seed": 0, "device": "cpu", "league_size": 1, "snapshot_every": 100, "policy_kwargs": {"net_arch": [8]}}
    given = SafetyTensorEnv(8, FORCE, disturbance="player") if env is None else env
    return cls("MlpPolicy", given, **{**base, **own, **more})


class Still(TensorVecEnv):
    """Three numbers of an action, which it keeps; margins never fail."""

    def __init__(self, **declares: Any) -> None:
        for name, value in declares.items():
            setattr(self, name, value)
        self.given: list[Any] = []
        super().__init__(8, spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (3,), np.float32))

    def reset_tensor(self) -> Any:
        return torch.zeros((self.num_envs, 1))

    def step_tensor(self, actions: Any) -> TensorStep:
        self.given.append(actions.clone())
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        return TensorStep(self.reset_tensor(), torch.ones(self.num_envs), never, never)


@pytest.mark.parametrize("cls", BOTH)
def test_a_saved_model_goes_on_with_another_number_of_slots(cls: Any, tmp_path: Path) -> None:
    learner = small(cls).learn(160)
    learner.save(tmp_path / "model.zip")
    more = cls.load(tmp_path / "model.zip", env=SafetyTensorEnv(16, FORCE, disturbance="player"), device="cpu")
    np.testing.assert_array_equal(more.predict_value(ROWS), learner.predict_value(ROWS))
    assert more.league.born.tolist() == learner.league.born.tolist() and len(more.league.match_of_slot) == 16
    more.learn(320, reset_num_timesteps=False)


def test_what_was_given_and_not_declared_is_in_the_file(tmp_path: Path) -> None:
    small(SafetyPPO2P, Still(), ctrl_action_dim=2).save(tmp_path / "model.zip")
    loaded = SafetyPPO2P.load(tmp_path / "model.zip", env=Still(), device="cpu")
    assert loaded.ctrl_action_dim == 2 and loaded.predict(np.zeros((4, 1), np.float32))[0].shape == (4, 2)
    with pytest.raises(ValueError, match="ctrl_action_dim is 2, and the environment declares 1: leave it out"):
        SafetyPPO2P.load(tmp_path / "model.zip", env=Still(ctrl_action_dim=1), device="cpu")
    with pytest.raises(ValueError, match="ctrl_action_dim is 2, and the environment declares 1"):
        loaded.set_env(Still(ctrl_action_dim=1))
    with pytest.raises(TypeError, match=r"ctrl_action_dim is 1\.5; expected an int of at least 1"):
        small(SafetyPPO2P, Still(), ctrl_action_dim=1.5)


def test_a_model_of_another_number_of_players_is_refused(tmp_path: Path) -> None:
    small(SafetyPPO2P).save(tmp_path / "two.zip")
    SafetyPPO("MlpPolicy", SafetyTensorEnv(8, FORCE), device="cpu").save(tmp_path / "one.zip")
    with pytest.raises(ValueError, match=r"saved by a learner of 2 player\(s\), and SafetyPPO has 1: load it"):
        SafetyPPO.load(tmp_path / "two.zip")
    with pytest.raises(ValueError, match=r"saved by a learner of 1 player\(s\), and SafetyPPO2P has 2"):
        SafetyPPO2P.load(tmp_path / "one.zip")


@pytest.mark.parametrize("cls", BOTH)
def test_a_warm_start_takes_both_players_and_begins_the_league_with_them(cls: Any) -> None:
    source, learner = small(cls).learn(160), small(cls, seed=5)
    warm_start(learner, source)
    zero = np.zeros((2, 1))
    answers = source.predict_disturbance(ROWS, zero)
    for past in (None, 0):
        np.testing.assert_array_equal(learner.predict_disturbance(ROWS, zero, past=past), answers)
    np.testing.assert_array_equal(
        learner.predict(ROWS, deterministic=True)[0], source.predict(ROWS, deterministic=True)[0]
    )
    assert learner.league.born.tolist() == [[-1], [-1]]
    with pytest.raises(ValueError, match="The weights do not fit: networks"):
        warm_start(small(cls, disturbance_sees_control=False), source)


def test_steps_counted_anew_are_so_for_the_league_and_old_successes_are_forgotten() -> None:
    learner = small(SafetyPPO2P).learn(160)
    learner._reached = torch.ones(8, dtype=torch.bool)
    learner._setup_learn(80)
    assert learner._reached is None and learner._taken == 0
    learner.learn(160)
    assert learner._taken == 160 and learner.league.born.max() == 160


def test_sac_learns_from_and_asks_for_disturbances_of_the_ball_only() -> None:
    learner = small(SafetySAC2P, Still(ctrl_action_dim=1, disturbance_set=BallSet(1.0, 2)))
    with torch.no_grad():
        learner.disturbance.mu.bias.fill_(3.0)  # towards a corner of the box, which is sqrt(2) away
        (answer, _) = learner._answers(torch.zeros((4, 1)), torch.zeros((4, 1)))
    assert answer.norm(dim=1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)
    learner.learn(80)
    kept = learner.replay_buffer.actions[: learner.replay_buffer.size()].reshape(-1, 3)
    assert kept[:, 1:].norm(dim=1).max() <= 1.0 + 1e-5
    torch.testing.assert_close(kept, torch.cat(learner.env.given), atol=1e-5, rtol=0.0)


def test_the_middle_of_a_ball_has_a_slope() -> None:
    point = torch.zeros((1, 2), requires_grad=True)
    BallSet(1.0, 2).project(point).sum().backward()
    assert point.grad.tolist() == [[1.0, 1.0]]


def test_the_entropy_of_both_players_keeps_what_it_is_told() -> None:
    learner = small(SafetySAC2P, alpha_bounds=(0.05, 0.06), target_entropy=-2.0).learn(80)
    assert 0.05 - 1e-6 <= learner.temperature.log.exp().item() <= 0.06  # it began at 0.01
    assert learner.target_entropy == -2.0 and small(SafetySAC2P).target_entropy == -1.0  # U = 1


@pytest.mark.parametrize("cls", BOTH)
def test_noise_that_depends_on_the_state_is_the_controllers(cls: Any) -> None:
    small(cls, use_sde=True, sde_sample_freq=4).learn(240)


def test_the_disturbance_of_ppo_may_have_a_network_and_noise_of_its_own(tmp_path: Path) -> None:
    own = {"log_std_init": -0.5, "net_arch": [6]}
    learner = small(SafetyPPO2P, policy_kwargs={"net_arch": [8], "log_std_init": -2.0}, disturbance_kwargs=own)
    alike = small(SafetyPPO2P, policy_kwargs={"net_arch": [8], "log_std_init": -2.0})
    assert learner.policy.log_std.tolist() == [-2.0] and learner.disturbance.log_std.tolist() == [-0.5]
    assert alike.disturbance.log_std.tolist() == [-2.0]
    assert learner.disturbance.mlp_extractor.latent_dim_pi == 6 and alike.disturbance.mlp_extractor.latent_dim_pi == 8
    learner.learn(160).save(tmp_path / "model.zip")
    loaded = SafetyPPO2P.load(tmp_path / "model.zip", device="cpu")
    assert loaded.disturbance.log_std.tolist() == learner.disturbance.log_std.tolist() != [-0.5]
    with pytest.raises(ValueError, match="disturbance_kwargs has 'log_std'; expected some of net_arch, "):
        small(SafetyPPO2P, disturbance_kwargs={"log_std": 0.0})


def test_the_share_of_the_league_is_one_of_the_time_since_learning_began() -> None:
    learner, before = small(SafetyPPO2P), time.perf_counter()
    learner._league_seconds = 1e6  # of an earlier call
    learner._setup_learn(80)
    assert learner._counted_from >= before and learner._league_seconds == 0.0


class Parts(gymnasium.Env[Any, Any]):
    """Dict(ctrl, dstb) of two dtypes, and tells what it executed in the same parts."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Dict(ctrl=spaces.Box(-2.0, 2.0, (1,), np.float64), dstb=spaces.Box(-0.5, 0.5, (1,)))

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), 1.0, False, False, {"executed_action": {**action, "ctrl": np.array([1.0])}}


def test_parts_keep_their_dtypes_and_what_was_executed_is_one_row() -> None:
    learner = small(SafetySAC2P, DummyVecEnv([Parts] * 5)).learn(40)
    assert (learner.replay_buffer.actions[: learner.replay_buffer.size(), :, 0] == 0.5).all()  # 1 of 2


def test_a_best_response_says_what_controls_it_wants_and_keeps_no_controller(tmp_path: Path) -> None:
    def make() -> Any:
        return SafetyTensorEnv(8, FORCE, disturbance="player")

    with pytest.raises(ValueError, match=r"gave controls of shape \(8,\); expected \(8, 1\)"):
        best_response(lambda rows: rows[:, 0], make(), mode="avoid", steps=80, n_steps=10)
    response = best_response(lambda rows: rows[:, :1], make(), mode="avoid", steps=80, n_steps=10, device="cpu")
    response.save(tmp_path / "response.zip")
    loaded: Any = type(response).load(tmp_path / "response.zip", env=make(), device="cpu")
    zero = np.zeros((2, 1))
    np.testing.assert_array_equal(loaded.predict_disturbance(ROWS, zero), response.predict_disturbance(ROWS, zero))
    with pytest.raises(ValueError, match="has no controller to learn against: call best_response anew"):
        loaded.learn(80)


def test_a_target_reached_in_one_episode_is_no_win_of_the_next() -> None:
    class Turns(TensorVecEnv):
        """Each episode is one step: the first reaches the target, the second fails off it."""

        provides_l, ctrl_action_dim, steps = True, 1, 0

        def reset_tensor(self) -> Any:
            return torch.zeros((self.num_envs, 1))

        def step_tensor(self, actions: Any) -> TensorStep:
            self.steps += 1
            margin = torch.full((self.num_envs,), 0.1 if self.steps % 2 else -0.1)
            ended = torch.ones(self.num_envs, dtype=torch.bool)
            return TensorStep(self.reset_tensor(), margin, ended, torch.zeros_like(ended), margin)

    env = Turns(5, spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
    learner = small(ReachAvoidPPO2P, env, snapshot_every=10**6).learn(50)
    assert set(learner.league.win_rates().values()) == {0.5}


def test_what_a_disturbance_plays_is_executed_on_both_paths_and_told() -> None:
    # v' = v + dt * (u + d): 0.05 * (0.25 - 0.5) and 0.05 * (0.25 + 0.5)
    actions = np.array([[0.25, -0.5], [0.25, 0.5]], np.float32)
    tensor, native = (make(2, FORCE, disturbance="player") for make in (SafetyTensorEnv, SafetyVecEnv))
    tensor.reset()
    tensor.states = torch.zeros((2, 2))
    native.reset(options={"state": [0.0, 0.0]})
    assert tensor.step_tensor(torch.as_tensor(actions)).final_obs[:, 1].tolist() == pytest.approx([-0.0125, 0.0375])
    step = native.step(actions)
    assert native.states[:, 1].tolist() == pytest.approx([-0.0125, 0.0375])
    assert [info["executed_action"].tolist() for info in step.infos] == actions.tolist()
    single = SafetyEnv(FORCE, disturbance="player")
    single.reset()
    assert single.step(actions[1]).info["executed_action"].tolist() == actions[1].tolist()


def test_the_controls_of_a_best_response_are_in_the_units_of_the_environment() -> None:
    class Keeps(SafetyTensorEnv):
        def step_tensor(self, actions: Any) -> TensorStep:
            assert torch.allclose(actions[:, 0], torch.full((8,), 3.0))
            return super().step_tensor(actions)

    env = Keeps(8, DoubleIntegrator(acceleration=4.0, force_bound=0.5), disturbance="player")
    best_response(lambda rows: np.full((8, 1), 3.0), env, mode="avoid", steps=80, n_steps=10)
