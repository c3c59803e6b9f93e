"""Tensor environments: the same steps as their NumPy twins, and nothing read from the device while collecting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from gymnasium import spaces  # noqa: E402

import sekai  # noqa: E402
from sekai.compat import to_sb3  # noqa: E402
from sekai.safety.learners import ReachAvoidPPO, ReachAvoidSAC, SafetyPPO, SafetySAC  # noqa: E402
from sekai.safety.tensor import (  # noqa: E402
    SafetyTensorEnv,
    TensorFromNative,
    TensorStep,
    TensorVecEnv,
    TensorVecNormalize,
    is_tensor_env,
)
from sekai.safety.tensor.stepper import TensorStepper  # noqa: E402
from tests.safety.watched import Watched  # noqa: E402

torch.set_num_threads(1)  # networks this small only wait for a second one


class Walks(TensorVecEnv):
    """Slot `i` goes by its action, from x = 0; g = 2.5 - |x|, l = x - 1.5, cut after 4 steps."""

    provides_l = True

    def __init__(self, num_envs: int = 3, *, finals: bool = True, target: bool = True, device: Any = "cpu") -> None:
        box, force = spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)
        super().__init__(num_envs, box, force, device=device)
        self.x, self.t = torch.zeros(2, num_envs, device=device)
        self.finals, self.target, self.given = finals, target, []

    def reset_tensor(self) -> Any:
        self.x, self.t = torch.zeros(2, self.num_envs, device=self.device)
        return self.x[:, None].clone()

    def step_tensor(self, actions: Any) -> TensorStep:
        self.given.append(actions.clone())
        after, self.t = self.x + actions[:, 0], self.t + 1
        g = 2.5 - after.abs()
        failed = g < 0
        timeouts = ~failed & (self.t >= 4)
        dones = failed | timeouts
        self.x, self.t = torch.where(dones, 0.0, after), torch.where(dones, 0.0, self.t)
        target = after - 1.5 if self.target else None
        return TensorStep(self.x[:, None].clone(), g, dones, timeouts, target, after[:, None] if self.finals else None)


def test_as_a_vec_env_of_arrays_it_says_the_same() -> None:
    env = Walks()
    np.testing.assert_array_equal(env.reset(), np.zeros((3, 1)))
    for _ in range(3):
        observations, g, dones, infos = env.step(np.array([[1.0], [0.5], [0.0]], np.float32))
    # slot 0 is at 3 after three steps: g = 2.5 - 3, it failed and is back at 0; l = 3 - 1.5
    assert observations[:, 0].tolist() == [0.0, 1.5, 0.0] and g.tolist() == [-0.5, 1.0, 2.5]
    assert dones.tolist() == [True, False, False] and infos[0]["l_x"] == 1.5
    assert infos[0]["terminal_observation"].tolist() == [3.0] and "terminal_observation" not in infos[1]
    observations, g, dones, infos = env.step(np.array([[1.0], [0.5], [0.0]], np.float32))
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, True]
    assert is_tensor_env(env) and not is_tensor_env(to_sb3(sekai.make_vec("CartPole-v1", 1)))


def test_a_plain_tuple_of_five_is_taken_too() -> None:
    class Five(Walks):
        def step_tensor(self, actions: Any) -> Any:
            return tuple(super().step_tensor(actions))[:5]

    env = Five()
    env.reset()
    step = TensorStepper(env, "reach-avoid", finals=False).step(torch.ones((3, 1)))
    assert step.g.tolist() == [1.5, 1.5, 1.5] and step.l is not None and step.l.tolist() == [-0.5, -0.5, -0.5]


def test_without_a_reset_of_its_own_one_step_of_zeros_is_taken() -> None:
    class Begins(Walks):
        reset_tensor = TensorVecEnv.reset_tensor

    env = Begins()
    assert env.reset().tolist() == [[0.0], [0.0], [0.0]] and env.given[0].tolist() == [[0.0], [0.0], [0.0]]


def test_what_step_tensor_must_give_is_asked_for() -> None:
    env = Walks(finals=False, target=False)
    env.reset()
    with pytest.raises(LookupError, match=r"Walks\.step_tensor gave no l_x, which a reach-avoid learner needs"):
        TensorStepper(env, "reach-avoid", finals=False).step(torch.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"step_tensor gave no final_obs: leave it False"):
        TensorStepper(env, "avoid", finals=True).step(torch.zeros((3, 1)))
    assert TensorStepper(env, "avoid", finals=False).step(torch.zeros((3, 1))).l is None

    class Misshapen(Walks):
        def step_tensor(self, actions: Any) -> Any:
            return super().step_tensor(actions)._replace(dones=torch.zeros((3, 1), dtype=torch.bool))

    env = Misshapen()
    env.reset()
    with pytest.raises(ValueError, match=r"gave dones of shape \(3, 1\); expected \(3,\)"):
        TensorStepper(env, "avoid", finals=False).step(torch.zeros((3, 1)))


def test_final_observations_stand_only_where_an_episode_ended() -> None:
    env = Walks()
    env.reset()
    stepper = TensorStepper(env, "reach-avoid", finals=True)
    for _ in range(4):
        step = stepper.step(torch.tensor([[0.5], [0.25], [1.0]]))
    assert step.final_observations is not None
    # slot 2 failed at 3 in the third step and began anew: it is at 1
    assert step.timeouts.tolist() == [True, True, False]
    assert step.final_observations[1][:, 0].tolist() == [2.0, 1.0, 1.0]
    assert step.observations[:, 0].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("target", [None, "touch"])
def test_systems_on_a_device_step_as_their_native_twin(target: str | None, device: str) -> None:
    vec = sekai.make_vec("safety/DoubleIntegrator-v0", 5, target=target)
    twin = SafetyTensorEnv(5, "DoubleIntegrator", target=target, device=device)
    first = vec.reset(seed=0).observations
    twin.reset()
    twin.states = torch.as_tensor(first, device=device)
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.uniform(-1.5, 1.5, (5, 1)).astype(np.float32)
        result, step = vec.step(actions), twin.step_tensor(torch.as_tensor(actions, device=device))
        np.testing.assert_allclose(step.reward_g.cpu(), result.rewards, atol=1e-5)
        np.testing.assert_array_equal(step.dones.cpu(), result.dones)
        if target is None:
            assert step.l_x is None and not twin.provides_l
        else:
            np.testing.assert_allclose(step.l_x.cpu(), result.infos.columns["l_x"][0], atol=1e-5)
        twin.states = torch.as_tensor(
            result.observations, device=device
        )  # the next episodes of both begin where one says


def test_native_environments_become_tensors_without_a_copy() -> None:
    vec = sekai.make_vec("safety/DoubleIntegratorTouch-v0", 4)
    env, reference = TensorFromNative(vec, seed=3), sekai.make_vec("safety/DoubleIntegratorTouch-v0", 4)
    np.testing.assert_array_equal(env.reset_tensor(), reference.reset(seed=3).observations)
    seen: list[Any] = []
    step_vec = vec.step

    def watched(actions: Any) -> Any:
        seen.append(step_vec(actions))
        return seen[-1]

    vec.step = watched  # type: ignore[method-assign]
    ended = 0
    for _ in range(120):
        step, wanted = env.step_tensor(torch.ones((4, 1))), reference.step(np.ones((4, 1), np.float32))
        assert np.shares_memory(step.obs.numpy(), seen[-1].observations)
        np.testing.assert_array_equal(step.obs, wanted.observations)
        np.testing.assert_array_equal(step.l_x, wanted.infos.columns["l_x"][0])  # of the last state, not of the reset
        np.testing.assert_array_equal(step.timeouts, wanted.truncated & ~wanted.terminated)
        for slot in np.flatnonzero(wanted.ended):
            ended += 1
            np.testing.assert_array_equal(step.final_obs[slot], wanted.final_observation(slot))
    assert ended > 4
    with pytest.raises(ValueError, match="has autoreset='next_step'; expected 'same_step'"):
        TensorFromNative(sekai.make_vec("safety/PointMass-v0", 2, vector_kwargs={"autoreset": "next_step"}))
    with pytest.raises(TypeError, match=r"takes a sekai\.VecEnv; given str"):
        TensorFromNative("safety/PointMass-v0")  # type: ignore[arg-type]


def test_normalised_observations_have_mean_0_and_variance_1_and_margins_are_left_alone(tmp_path: Any) -> None:
    env = TensorVecNormalize(Walks(num_envs=4))
    env.reset_tensor()
    rows = [torch.zeros(4)]
    for t in range(30):
        step = env.step_tensor(torch.full((4, 1), 0.5 if t % 3 else -1.0))
        rows.append(env.env.x.clone())
        assert step.reward_g.max() <= 2.5 and float(step.reward_g[0]) == 2.5 - abs(float(step.l_x[0]) + 1.5)
    seen = torch.cat(rows).double()
    wanted = (1.0 - seen.mean()) / seen.std(unbiased=False)
    assert float(env.normalize(torch.tensor([1.0]))) == pytest.approx(float(wanted), rel=1e-5)
    env.training = False
    before = env.state_dict()
    env.step_tensor(torch.ones((4, 1)))
    assert all(torch.equal(before[key], value) for key, value in env.state_dict().items())
    env.save(tmp_path / "norm.pt")
    other = TensorVecNormalize(Walks(num_envs=4))
    other.load(tmp_path / "norm.pt")
    assert torch.equal(other.normalize(torch.ones(1)), env.normalize(torch.ones(1))) and other.provides_l
    with pytest.raises(ValueError, match="expected"):
        other.load_state_dict({"mean": torch.zeros(1)})


#: what one rollout may read, whatever its length: a look for margins that are no numbers, and the log
PER_ROLLOUT = {
    "compute_returns_and_advantage: item": 1,  # whether all margins are finite
    "_mean: item": 2,  # shares of values
    "_share: item": 2,  # shares of branches
    "diagnostics: mask": 1,  # the values of first states
    "diagnostics: item": 1,  # their mean
    "read: item": 2,  # the falls of an environment that declares nothing
}
#: the same in reach-avoid: one branch more, and no failure value
PER_ROLLOUT_REACH_AVOID = {**PER_ROLLOUT, "_share: item": 3, "read: item": 0}
#: what PPO of Stable-Baselines3 reads for its log, from one batch and from one update
PER_BATCH = {"train: item": 4, "train: cpu": 1, "train: numpy": 1}
PER_UPDATE = {"train: item": 2, "values: cpu": 1, "values: numpy": 1, "returns: cpu": 1, "returns: numpy": 1}
#: what SAC reads: three numbers of each gradient step, then the log of an update, with the episodes that ended
PER_GRADIENT_STEP = {"_update: item": 3}
PER_SAC_UPDATE = {"_count_episodes: item": 1, "_mean: item": 2, "_share: item": 2, "read: item": 2}
PER_SAC_UPDATE_REACH_AVOID = {**PER_SAC_UPDATE, "_share: item": 3, "read: item": 0}


class Reads(Walks):
    """Looks at one number with every step."""

    def step_tensor(self, actions: Any) -> TensorStep:
        step = super().step_tensor(actions)
        assert step.reward_g[0].item() < 9
        return step


def watched_rollout(cls: Any, env: Any, length: int) -> tuple[Any, Counter[str]]:
    """A learner, and what its second rollout reads: in the first everything is built."""
    ppo = cls in (SafetyPPO, ReachAvoidPPO)
    options = (
        {"n_steps": length, "batch_size": 64, "n_epochs": 2} if ppo else {"train_freq": length, "learning_starts": 8}
    )
    model = cls("MlpPolicy", env, seed=0, device=env.device, bootstrap_on_timeout=True, **options)
    model.learn(length * 8)
    _, callback = model._setup_learn(length * 8, reset_num_timesteps=False)
    with Watched() as watched:
        if ppo:
            model.collect_rollouts(model.env, callback, model.rollout_buffer, length)
        else:
            model.collect_rollouts(model.env, callback, model.train_freq, model.replay_buffer)
    return model, watched.found


@pytest.mark.parametrize("length", [16, 48])
@pytest.mark.parametrize(
    ("cls", "allowed"),
    [(SafetyPPO, PER_ROLLOUT), (ReachAvoidPPO, PER_ROLLOUT_REACH_AVOID), (SafetySAC, {}), (ReachAvoidSAC, {})],
)
def test_a_rollout_reads_what_is_written_here_and_no_step_does(
    cls: Any, allowed: Any, length: int, device: str
) -> None:
    assert watched_rollout(cls, Walks(num_envs=8, device=device), length)[1] == Counter(allowed)


@pytest.mark.parametrize("cls", [SafetyPPO, SafetySAC])
def test_an_environment_that_reads_with_every_step_is_noticed(cls: Any, device: str) -> None:
    found = watched_rollout(cls, Reads(num_envs=8, device=device), 16)[1]
    assert found["step_tensor: item"] == 16


@pytest.mark.parametrize("cls", [SafetyPPO, SafetySAC, ReachAvoidSAC])
def test_an_update_reads_what_is_written_here(cls: Any, device: str) -> None:
    model, _ = watched_rollout(cls, Walks(num_envs=8, device=device), 16)
    with Watched() as watched:
        if cls is SafetyPPO:
            model.train()
        else:
            model.train(gradient_steps=4, batch_size=64)
    batches = 4  # of PPO 16 steps of 8 slots, twice, in batches of 64
    each, once = {
        SafetyPPO: (PER_BATCH, PER_UPDATE),
        SafetySAC: (PER_GRADIENT_STEP, PER_SAC_UPDATE),
        ReachAvoidSAC: (PER_GRADIENT_STEP, PER_SAC_UPDATE_REACH_AVOID),
    }[cls]
    wanted = Counter(once)
    for _ in range(batches):
        wanted.update(each)
    assert watched.found == wanted


@pytest.mark.parametrize(
    ("what", "operation"),
    [
        (lambda x: x.sum().item(), "item"),
        (lambda x: bool((x > 0).any()), "item"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: x.cpu(), "cpu"),
        (lambda x: x[x > 0], "mask"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x + torch.as_tensor(np.ones(3, np.float32)), "from host"),
    ],
)
def test_what_waits_for_a_device_is_seen(what: Any, operation: str) -> None:
    with Watched() as watched:
        what(torch.ones(3))
    assert watched.found == Counter({f"<lambda>: {operation}": 1})


class InPlace(TensorVecEnv):
    """A counter that writes each step into the same tensor, as simulators do."""

    def __init__(self, device: Any = "cpu") -> None:
        box, force = spaces.Box(-9.0, 99.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)
        super().__init__(2, box, force, device=device)
        self.x = torch.zeros((2, 1), device=device)

    def reset_tensor(self) -> Any:
        return self.x.zero_()

    def step_tensor(self, actions: Any) -> TensorStep:
        self.x += 1
        no = torch.zeros(2, dtype=torch.bool, device=self.device)
        return TensorStep(self.x, torch.ones(2, device=self.device), no, no)


def test_observations_are_kept_though_the_simulator_writes_over_them(device: str) -> None:
    model = SafetyPPO("MlpPolicy", InPlace(device), n_steps=8, batch_size=16, device=device)
    model.learn(16)
    assert model.rollout_buffer.observations[:, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    sac = SafetySAC("MlpPolicy", InPlace(device), learning_starts=99, device=device)
    sac.learn(16)
    assert sac.replay_buffer.observations[:8, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert sac.replay_buffer.next_observations[:8, 0, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_wrapper_of_sb3_around_a_tensor_environment_is_not_passed_by() -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(InPlace(), norm_reward=False)
    assert is_tensor_env(env.venv) and not is_tensor_env(env)
    model = SafetyPPO("MlpPolicy", env, n_steps=8, batch_size=16, device="cpu")
    model.learn(16)
    # what is seen is normalised: at most 8 / std(0..8), where the counter itself goes to 7
    assert 0 < float(model.rollout_buffer.observations.max()) < 3
    assert env.obs_rms.count == pytest.approx(18, abs=0.01)  # the reset and 8 steps of 2 slots


def test_off_policy_learners_write_their_log_without_reading_each_step() -> None:
    from stable_baselines3.common.logger import KVWriter, Logger

    class Kept(KVWriter):  # type: ignore[misc]  # SB3 is an extra, and read as Any
        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []

        def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
            self.rows.append(dict(key_values))

    model, kept = SafetySAC("MlpPolicy", Walks(), learning_starts=6, device="cpu", seed=0), Kept()
    model.set_logger(Logger(None, [kept]))
    model.learn(120)
    # 40 steps of 3 slots, episodes of 3 or 4 steps: 30 to 40, written at each fourth
    assert 30 <= model._episode_num <= 40 and 6 <= len(kept.rows) <= 10
    assert "train/critic_loss" in kept.rows[-1]
    with pytest.raises(ValueError, match="train_freq counts episodes, which are not read from a tensor environment"):
        SafetySAC("MlpPolicy", Walks(), train_freq=(1, "episode"), device="cpu").learn(9)


def test_the_seed_of_a_learner_is_that_of_the_episodes() -> None:
    def first(seed: int) -> Any:
        env = TensorFromNative(sekai.make_vec("safety/DoubleIntegrator-v0", 3))
        SafetyPPO("MlpPolicy", env, seed=seed, n_steps=2, batch_size=6, device="cpu")
        return env.reset()

    np.testing.assert_array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_closing_what_normalises_closes_what_is_inside() -> None:
    closed: list[bool] = []
    env = Walks()
    env.close = lambda: closed.append(True)  # type: ignore[method-assign]
    TensorVecNormalize(env).close()
    assert closed == [True]


@pytest.mark.parametrize("cls", [SafetyPPO, SafetySAC])
def test_a_margin_that_is_no_number_is_found_before_it_is_learned_from(cls: Any) -> None:
    class Broken(Walks):
        def step_tensor(self, actions: Any) -> TensorStep:
            step = super().step_tensor(actions)
            return step._replace(reward_g=torch.where(torch.arange(3) == 1, torch.nan, step.reward_g))

    ppo = cls is SafetyPPO
    options = {"n_steps": 8, "batch_size": 24} if ppo else {"learning_starts": 6, "batch_size": 64}
    message = (
        "The margin g of sub-env 1 in step 0 of the rollout is nan" if ppo else "margins of the batch are not finite"
    )
    with pytest.raises(ValueError, match=message):
        cls("MlpPolicy", Broken(), seed=0, device="cpu", **options).learn(48)
