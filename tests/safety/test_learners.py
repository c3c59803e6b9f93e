"""What learners store, and what they are worth: rows of a walk whose margins are known, and small trained policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from gymnasium import spaces  # noqa: E402

import sekai  # noqa: E402
from sekai.compat import to_sb3  # noqa: E402
from sekai.safety.backups import backup_ends  # noqa: E402
from sekai.safety.discount import Annealing  # noqa: E402
from sekai.safety.floors import FailureFloor  # noqa: E402
from sekai.safety.learners import (  # noqa: E402
    ReachAvoidDQN,
    ReachAvoidPPO,
    ReachAvoidSAC,
    SafetyA2C,
    SafetyDQN,
    SafetyPPO,
    SafetySAC,
    resolve_learner,
)
from sekai.safety.learners.base import SafetyLearner  # noqa: E402
from sekai.safety.returns import safety_returns  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv  # noqa: E402
from tests.safety.chain import Walk  # noqa: E402


def small() -> dict[str, Any]:
    """Options of a small learner; SB3 writes into the dict it is given."""
    return {"device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [8]}}


def ppo(env: Any, cls: Any = SafetyPPO, **more: Any) -> Any:
    return cls("MlpPolicy", env, n_steps=8, batch_size=24, n_epochs=1, **{**small(), **more})


def rollout(model: Any) -> Any:
    """The buffer after one rollout, before anything is learned from it."""
    model.learn(model.n_steps * model.n_envs)
    return model.rollout_buffer


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("cls", [SafetyPPO, ReachAvoidPPO, SafetyA2C])
def test_rollouts_hold_the_margins_as_they_came(cls: Any, bootstrap: bool) -> None:
    env = Walk(target=cls.mode == "reach-avoid")
    options = {"n_steps": 8} if cls is SafetyA2C else {"n_steps": 8, "batch_size": 24, "n_epochs": 1}
    model = cls("MlpPolicy", env, bootstrap_on_timeout=bootstrap, learning_rate=0.0, **options, **small())
    buffer = rollout(model)
    x, t = np.full(3, 2.0), np.zeros(3, int)
    final_values = model.predict_value  # the learning rate is 0: values are those that were used
    for row in range(8):
        observed = np.stack([np.arange(3), x], 1).astype(np.float32)
        np.testing.assert_array_equal(buffer.observations[row], observed)
        x, t = x + 2.0 * env.executed[row] - 1.0, t + 1
        np.testing.assert_allclose(buffer.g[row], x + 0.5)  # nothing was added to it
        terminated, cut = x < -0.5, (x >= -0.5) & (t >= 4)
        on = ~backup_ends(terminated, cut, bootstrap_on_timeout=bootstrap)
        np.testing.assert_array_equal(buffer.not_done[row], on)
        np.testing.assert_array_equal(buffer.trace[row], ~(terminated | cut))
        if cls.mode == "reach-avoid":
            np.testing.assert_allclose(buffer.l[row], x - 3.5)
        else:
            assert not hasattr(buffer, "l")
        after = final_values(np.stack([np.arange(3), x], 1).astype(np.float32))  # of the true successor
        np.testing.assert_allclose(buffer._next_values[row].numpy()[on], after[on], atol=1e-6)
        done = terminated | cut
        x, t = np.where(done, 2.0, x), np.where(done, 0, t)
    returns = safety_returns(
        cls.mode,
        buffer.g,
        buffer._next_values,
        not_done=buffer.not_done,
        trace=buffer.trace,
        gamma=model.gamma,
        lambda_=model.gae_lambda,
        l_t=buffer.l if cls.mode == "reach-avoid" else None,
        failure_value=buffer.failure_value,
    )
    np.testing.assert_allclose(buffer.returns, returns)
    samples = next(buffer.get(24))
    np.testing.assert_allclose(samples.advantages, samples.returns - samples.old_values, atol=1e-6)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_replay_holds_true_successors_and_where_the_backup_ends(bootstrap: bool) -> None:
    env = Walk(target=True)
    model = ReachAvoidDQN("MlpPolicy", env, learning_starts=30, bootstrap_on_timeout=bootstrap, **small())
    model.learn(30)
    buffer = model.replay_buffer
    x, t = np.full(3, 2.0), np.zeros(3, int)
    for row in range(10):
        np.testing.assert_array_equal(buffer.observations[row][:, 1], x)
        x, t = x + 2.0 * env.executed[row] - 1.0, t + 1
        terminated, cut = x < -0.5, (x >= -0.5) & (t >= 4)
        on = ~backup_ends(terminated, cut, bootstrap_on_timeout=bootstrap)
        np.testing.assert_array_equal(buffer.not_done[row], on)
        np.testing.assert_array_equal(buffer.next_observations[row][:, 1].numpy()[on], x[on])
        np.testing.assert_allclose(buffer.g[row], x + 0.5)
        np.testing.assert_allclose(buffer.l[row], x - 3.5)
        x, t = np.where(terminated | cut, 2.0, x), np.where(terminated | cut, 0, t)
    batch = buffer.sample(50)
    np.testing.assert_allclose(batch.l, batch.g - 4.0)  # l and g of one and the same state


def test_actions_of_sac_reach_the_environment_in_its_own_units() -> None:
    env = Walk(box=True)
    model = SafetySAC("MlpPolicy", env, learning_starts=6, **small())
    model.learn(30)
    executed = np.stack(env.executed)
    assert executed.min() >= -1.0 and executed.max() <= 3.0 and executed.max() > 1.5
    # the box is [-1, 3]: -1 + (a + 1) / 2 * 4 = 1 + 2 a
    np.testing.assert_allclose(executed, 1.0 + 2.0 * model.replay_buffer.actions[: len(executed)].numpy(), atol=1e-6)
    assert not hasattr(model.replay_buffer, "l")


def test_reach_avoid_without_l_is_an_error_that_names_the_slot() -> None:
    with pytest.raises(LookupError, match=r"The info of sub-env 0 has no 'l_x' \(3 of 3 have none\)"):
        rollout(ppo(Walk(), ReachAvoidPPO))


def test_a_margin_that_is_no_number_is_an_error() -> None:
    class Broken(Walk):
        def step_wait(self) -> Any:
            observations, g, done, infos = super().step_wait()
            g[1] = np.nan
            return observations, g, done, infos

    with pytest.raises(ValueError, match="which is the margin g, of sub-env 1 is nan"):
        rollout(ppo(Broken()))


def test_a_timeout_without_its_last_observation_cannot_be_bootstrapped() -> None:
    class Forgets(Walk):
        def step_wait(self) -> Any:
            observations, g, done, infos = super().step_wait()
            return observations, g, done, [{k: v for k, v in i.items() if k != "terminal_observation"} for i in infos]

    rollout(ppo(Forgets()))
    with pytest.raises(ValueError, match="has no 'terminal_observation': leave it False"):
        rollout(ppo(Forgets(), bootstrap_on_timeout=True))


def test_discounts_come_from_horizons_and_failure_values_from_the_rule() -> None:
    model = ppo(Walk())
    assert model.gamma == pytest.approx(1 - 0.5 / 5.0)  # dt 0.5 s, horizon 5 s
    # 1.5 s are 3 steps: (.9^-3 - 1) * 4.5 = (1.371742 - 1) * 4.5 = 1.672840
    assert rollout(model).failure_value == pytest.approx(-1.672840, abs=1e-5)
    assert ppo(Walk(target=True), ReachAvoidPPO).gamma == pytest.approx(1 - 0.5 / 50.0)
    assert rollout(ppo(Walk(target=True), ReachAvoidPPO)).failure_value is None
    assert rollout(ppo(Walk(), failure_value=-0.25)).failure_value == -0.25
    assert rollout(ppo(Walk(), failure_value=None)).failure_value is None
    with pytest.raises(ValueError, match=r"gamma is 0\.9 and horizon_s 5\.0; give one of them"):
        ppo(Walk(), gamma=0.9, horizon_s=5.0)
    with pytest.raises(ValueError, match="failure_value is 1; expected 'auto', a number below 0, or None"):
        ppo(Walk(), failure_value=1)


def test_what_a_task_does_not_declare_is_estimated_from_its_failures() -> None:
    # an episode that only goes left: g 1.5, .5, -.5. The fall from 1.5 takes the first step and two more
    model = ppo(Walk(declares=False))
    model.policy.action_net.bias.data = torch.tensor([50.0, -50.0])
    assert rollout(model).failure_value == pytest.approx(-(0.9**-3 - 1) * 1.5, abs=1e-5)


def test_annealing_goes_by_absolute_steps() -> None:
    anneal = Annealing(0.9, 0.999, 1000)
    # 1 - gamma: .1, then .1 * (.01)^.5 = .01, then .001
    assert [anneal(0), anneal(500), anneal(1000), anneal(5000)] == pytest.approx([0.9, 0.99, 0.999, 0.999])
    stairs = Annealing(0.9, 0.999, 1000, kind="step")
    assert stairs(99) == pytest.approx(0.9) and stairs(100) == pytest.approx(1 - 0.1 * 0.01**0.1)
    model = ppo(Walk(), gamma=Annealing(0.9, 0.999, 48))
    model.learn(24)
    assert model.gamma == pytest.approx(0.9)  # of the rollout that began at 0
    model.learn(24, reset_num_timesteps=False)
    assert model.gamma == pytest.approx(0.99)


@pytest.mark.parametrize("mode", ["avoid", "reach-avoid"])
@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "sac", "dqn"])
def test_every_learner_saves_and_loads_what_it_says(mode: str, algorithm: str, tmp_path: Any) -> None:
    env = Walk(target=mode == "reach-avoid", box=algorithm == "sac")
    cls: Any = resolve_learner(mode, algorithm)
    options: dict[str, Any] = {"n_steps": 8} if algorithm in ("ppo", "a2c") else {"learning_starts": 12}
    model = cls("MlpPolicy", env, **options, **small())
    model.learn(48)
    rows = np.array([[0.0, 2.0], [1.0, -0.4]], np.float32)
    model.save(tmp_path / "model")
    loaded = cls.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_value(rows), model.predict_value(rows))
    assert loaded.predict_value(rows[0]).shape == () and loaded.predict_value(rows[None]).shape == (1, 2)
    np.testing.assert_array_equal(loaded.certificate(rows), model.predict_value(rows) >= 0)
    other = {"avoid": "reach-avoid", "reach-avoid": "avoid"}[mode]
    with pytest.raises(ValueError, match=f"was saved by a learner of mode '{mode}'"):
        resolve_learner(other, algorithm).load(tmp_path / "model")
    loaded.set_env(env)
    loaded.learn(24, reset_num_timesteps=False)


def test_a_plain_model_is_not_taken_for_a_safe_one(tmp_path: Any) -> None:
    from stable_baselines3 import PPO

    PPO("MlpPolicy", Walk(), n_steps=8, batch_size=24, **small()).save(tmp_path / "plain")
    with pytest.raises(ValueError, match="was saved by a learner of mode None"):
        SafetyPPO.load(tmp_path / "plain")


def test_values_of_misshapen_observations_are_refused() -> None:
    with pytest.raises(ValueError, match=r"have shape \(3,\); expected \(..., \*\(2,\)\)"):
        ppo(Walk()).predict_value([1.0, 2.0, 3.0])


def test_critics_begin_high_in_avoid_and_low_in_reach_avoid() -> None:
    model = SafetySAC("MlpPolicy", Walk(box=True), learning_starts=30, learning_rate=0.0, **small())
    model.learn(33)
    best = float(model.replay_buffer.g[: model.replay_buffer.size()].max())
    for network in model.critic.q_networks:
        assert network[-1].bias.item() == pytest.approx(best, abs=0.05)
    model = ReachAvoidSAC("MlpPolicy", Walk(box=True, target=True), learning_starts=30, learning_rate=0.0, **small())
    model.learn(33)
    rows = model.replay_buffer
    worst = float(torch.minimum(rows.g, rows.l)[: rows.size()].min())
    assert model.critic.q_networks[0][-1].bias.item() == pytest.approx(worst, abs=0.05)


def test_values_of_dqn_begin_high_in_avoid_and_low_in_reach_avoid() -> None:
    def values(cls: Any, **more: Any) -> Any:
        model = cls("MlpPolicy", Walk(target=True), learning_starts=30, learning_rate=0.0, **small(), **more)
        model.learn(48)
        rows = model.replay_buffer
        last = model.q_net.q_net[-1]
        torch.testing.assert_close(last.bias, model.q_net_target.q_net[-1].bias)
        return last.bias, rows.g[: rows.size()]

    bias, g = values(SafetyDQN)
    assert bias.tolist() == [float(g[:10].max())] * 2  # of the 10 steps that had been seen
    bias, g = values(ReachAvoidDQN)
    assert bias.tolist() == [float(g[:10].min()) - 4.0] * 2  # l = g - 4
    assert values(SafetyDQN, initial_value=0.25)[0].tolist() == [0.25] * 2
    assert values(SafetyDQN, initial_value=None)[0].abs().max() < 1.0
    for wrong in ("high", float("nan")):
        with pytest.raises(ValueError, match=f"^initial_value is {wrong!r}; expected a finite number, 'auto' or None."):
            values(SafetyDQN, initial_value=wrong)


def test_no_entropy_stands_in_the_target_of_sac() -> None:
    model = SafetySAC("MlpPolicy", Walk(box=True), learning_starts=12, learning_rate=0.0, ent_coef=100.0, **small())
    model.learn(30)
    model.train(gradient_steps=1)
    # critics do not move: half the mean square of what they are from targets; an entropy of 1 would make it 100^2 / 2
    assert 0 < model.logger.name_to_value["train/critic_loss"] < 50


def test_alpha_stays_within_its_bounds() -> None:
    model = SafetySAC(
        "MlpPolicy", Walk(box=True), learning_starts=6, learning_rate=1.0, alpha_bounds=(0.1, 0.2), **small()
    )
    model.learn(60)
    assert 0.1 - 1e-6 <= model.log_ent_coef.exp().item() <= 0.2 + 1e-6
    with pytest.raises(ValueError, match=r"expected \(low, high\) with 0 <= low <= high"):
        SafetySAC("MlpPolicy", Walk(box=True), alpha_bounds=(2.0, 1.0), **small())


def test_unknown_learners_are_refused_with_those_there_are() -> None:
    assert resolve_learner("avoid", "PPO") is SafetyPPO and issubclass(SafetyDQN, SafetyLearner)
    with pytest.raises(ValueError, match=r"No learner of \('avoid', 'td3', 1\); there are \('avoid', 'ppo', 1\)"):
        resolve_learner("avoid", "td3")


def test_a_misspelt_option_is_refused_with_the_closest_and_all_there_are() -> None:
    with pytest.raises(
        TypeError, match=r"SafetyPPO takes no option 'learning_rat'\. Did you mean 'learning_rate'"
    ) as told:
        ppo(Walk(), learning_rat=0.1)
    names = str(told.value).partition(" It takes: ")[2].rstrip(".").split(", ")
    assert {"failure_value", "normalize_observations", "n_steps", "clip_range"} <= set(names)
    assert not {"policy", "env", "self", "_init_setup_model", "buffer_size", "monitor_wrapper"} & set(names)
    with pytest.raises(
        TypeError, match=r"SafetySAC takes no option 'zzz'\. It takes: action_noise, actor_aggregator, "
    ):
        SafetySAC("MlpPolicy", Walk(box=True), zzz=1)

    class Mine(SafetyPPO):
        def __init__(self, *args: Any, extra: int = 0, **options: Any) -> None:
            super().__init__(*args, **options)

    assert ppo(Walk(), Mine, extra=1).n_steps == 8
    with pytest.raises(TypeError, match=r"Mine takes no option 'extr'\. Did you mean 'extra'"):
        ppo(Walk(), Mine, extr=1)


def test_vector_environments_of_sekai_are_taken_as_they_are() -> None:
    vec = sekai.make_vec("safety/DoubleIntegrator-v0", 4)
    model = SafetyPPO("MlpPolicy", vec, n_steps=16, batch_size=64, **small())
    model.learn(64)
    assert model.gamma == pytest.approx(0.99)  # dt 0.05 s
    # declared: 2 s to a failure, 40 steps, margins up to 1: .99^-40 - 1 = .494831
    assert model.rollout_buffer.failure_value == pytest.approx(-0.494831, abs=1e-5)


def test_scaled_margins_are_refused_at_construction_and_afterwards(tmp_path: Any) -> None:
    def scaled() -> Any:
        return sekai.VecNormalizeReward(sekai.make_vec("safety/DoubleIntegrator-v0", 4))

    message = (
        "SafetyPPO cannot use this environment: its reward is the safety margin g, and VecNormalizeReward changes it"
    )
    with pytest.raises(ValueError, match=message):
        SafetyPPO("MlpPolicy", scaled(), **small())
    model = SafetyPPO("MlpPolicy", sekai.make_vec("safety/DoubleIntegrator-v0", 4), n_steps=16, **small())
    with pytest.raises(ValueError, match=message):
        model.set_env(to_sb3(scaled()))
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        SafetyPPO.load(tmp_path / "model", env=to_sb3(scaled()))
    with pytest.raises(ValueError, match="ReachAvoidPPO is a reach-avoid learner, and the environment declares"):
        ReachAvoidPPO("MlpPolicy", sekai.make_vec("safety/DoubleIntegrator-v0", 4), **small())


def test_falls_of_unknown_tasks_survive_another_number_of_slots(tmp_path: Any) -> None:
    model = ppo(Walk(declares=False))
    model.policy.action_net.bias.data = torch.tensor([50.0, -50.0])
    wanted = rollout(model).failure_value
    model.save(tmp_path / "model")
    loaded: Any = SafetyPPO.load(tmp_path / "model", env=Walk(5, declares=False))
    assert loaded._floor.value(loaded.gamma).value == pytest.approx(wanted)
    loaded.learn(40)
    assert loaded.rollout_buffer.failure_value == pytest.approx(wanted)  # no fall is longer than a whole episode


def test_a_new_episode_continues_no_fall() -> None:
    floor = FailureFloor("auto", "avoid")
    no, yes = torch.tensor([False]), torch.tensor([True])
    for g in (3.0, 2.0):
        floor.see(torch.tensor([g]), no, no)
    floor.begin()  # the environment was reset
    floor.see(torch.tensor([0.5]), no, no)
    floor.see(torch.tensor([-0.5]), yes, yes)
    found: Any = floor.value(0.9)
    # two steps from 0.5, and not four from 3: (.9^-2 - 1) * .5 = .117284
    assert found.value == pytest.approx(-0.117284, abs=1e-6)


def test_a_loaded_learner_looks_at_its_new_environment(tmp_path: Any) -> None:
    model = ppo(Walk())
    model.learn(24)
    model.save(tmp_path / "model")
    assert SafetyPPO.load(tmp_path / "model").dt == 0.5
    faster = Walk()
    faster.dt = 0.25
    loaded: Any = SafetyPPO.load(tmp_path / "model", env=faster)
    assert loaded.gamma == pytest.approx(1 - 0.25 / 5.0)
    # 1.5 s are 6 steps now: (.95^-6 - 1) * 4.5 = (1.360374 - 1) * 4.5 = 1.621684
    assert rollout(loaded).failure_value == pytest.approx(-1.621684, abs=1e-5)


def test_nothing_in_a_saved_file_is_bound_to_a_device(tmp_path: Any) -> None:
    import cloudpickle
    from stable_baselines3.common.save_util import load_from_zip_file

    model = SafetyPPO("MlpPolicy", SafetyTensorEnv(3, "DoubleIntegrator"), n_steps=8, batch_size=24, **small())
    model.learn(24)
    model.save(tmp_path / "model")
    data, _, _ = load_from_zip_file(tmp_path / "model")
    assert isinstance(data["_last_obs"], np.ndarray) and isinstance(model._last_obs, torch.Tensor)
    floor = cloudpickle.loads(cloudpickle.dumps(model._floor))
    assert floor.value(0.9) == model._floor.value(0.9)
    assert not [name for name, value in data.items() if isinstance(value, torch.Tensor)]


def test_discounts_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"gamma is 1\.5; expected a number above 0, at most 1, or an Annealing"):
        SafetySAC("MlpPolicy", Walk(box=True), gamma=1.5, failure_value=None, **small())
    with pytest.raises(ValueError, match=r"horizon_s is 0 and dt 0\.5 \(seconds\)"):
        ppo(Walk(), horizon_s=0)


def test_callbacks_of_sb3_read_which_episodes_ended() -> None:
    from stable_baselines3.common.callbacks import StopTrainingOnMaxEpisodes

    for model in (ppo(Walk()), SafetySAC("MlpPolicy", Walk(box=True), learning_starts=6, **small())):
        model.learn(900, callback=StopTrainingOnMaxEpisodes(2))  # of each of 3 slots: 6 episodes of at most 4 steps
        assert model.num_timesteps <= 36
        np.testing.assert_array_equal(model._last_obs, model.env.observe())  # it goes on where it was stopped


def test_actions_of_several_bits_are_learned_from() -> None:
    class Bits(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.MultiBinary(2)

        def step_async(self, actions: Any) -> None:
            super().step_async(actions[:, 0])

    model = ppo(Bits())
    before = model.policy.action_net.weight.detach().clone()
    assert rollout(model).actions.dtype == torch.int8
    assert not torch.equal(before, model.policy.action_net.weight)


def test_replay_is_normalised_by_the_statistics_of_when_it_is_drawn() -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(Walk(box=True), norm_reward=False)
    model = SafetySAC("MlpPolicy", env, learning_starts=30, bootstrap_on_timeout=True, **small())
    model.learn(30)
    buffer = model.replay_buffer
    x, t = np.full(3, 2.0), np.zeros(3, int)
    for row in range(10):
        np.testing.assert_array_equal(buffer.observations[row][:, 1], x)  # as they were
        x, t = x + np.sign(env.venv.executed[row][:, 0] - 1.0), t + 1
        on = buffer.not_done[row].numpy()
        np.testing.assert_allclose(buffer.next_observations[row][:, 1].numpy()[on], x[on], atol=1e-4)
        done = (x < -0.5) | (t >= 4)
        x, t = np.where(done, 2.0, x), np.where(done, 0, t)
    env.obs_rms.mean, env.obs_rms.var = np.array([1.0, 1.0]), np.array([4.0, 4.0])
    rows = model._drawn(40)
    assert set(np.round(rows.observations[:, 0].numpy(), 3)) == {-0.5, 0.0, 0.5}  # slots 0, 1, 2: (slot - 1) / 2


def test_values_of_many_observations_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ppo(Walk())
    rows = np.random.default_rng(0).normal(size=(5, 7, 2)).astype(np.float32)
    wanted = model.predict_value(rows)
    monkeypatch.setattr("sekai.safety.learners.base.ROWS_AT_ONCE", 4)
    np.testing.assert_allclose(model.predict_value(rows), wanted, atol=1e-6)
    assert model.predict_value(rows[:0]).shape == (0, 7)


def test_actions_of_the_warm_up_come_from_the_policy_where_gsde_is_asked_to() -> None:
    def spread(**more: Any) -> float:
        options = {"learning_starts": 99, "use_sde": True, **small()}
        options["policy_kwargs"]["log_std_init"] = -9.0  # the policy hardly explores
        model = SafetySAC("MlpPolicy", Walk(1, box=True), **options, **more)
        model.learn(30)
        return float(model.replay_buffer.actions[:30].std())

    assert spread() > 0.4 and spread(use_sde_at_warmup=True) < 0.3  # uniform actions have 0.58
