"""`to_sb3`: what Stable-Baselines3 sees of a sekai vector environment, on every backend."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import sekai
from sekai.compat import to_sb3
from sekai.seeding import spawn_seeds
from sekai.testing import CodedVecEnv
from tests.compat.samples import BACKENDS, Fresh, coded, factory, places

ALL = ("terminated", "truncated", "both")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small run faster in one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Drawn(sekai.Env):
    """Shows the number that its reset drew, and what it was told."""

    observation_space = sekai.Box(0.0, 1e12, (1,), np.float64)
    action_space = sekai.Discrete(2)
    level = 0

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.heard.append(options)
        return sekai.ResetResult(np.full(1, float(self.rng.integers(10**12))), {"options": options})

    def step(self, action: Any) -> sekai.StepResult:
        return sekai.StepResult(np.zeros(1), 0.0, False, False, {})

    def raised_by(self, amount: int) -> int:
        self.level += amount
        return self.level


def drawn(backend: str = "sync", n: int = 3) -> Any:
    cls = sekai.SyncVecEnv if backend == "sync" else sekai.ProcVecEnv
    extra = {} if backend == "sync" else {"num_workers": 2}
    return cls([Drawn] * n, **extra)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_timeline_of_three_slots_with_the_true_last_observations(backend: str) -> None:
    with coded(backend, (2, 3, 2), ALL) as vec:
        env = to_sb3(vec)
        assert places(env.reset()) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
        assert env.reset_infos == [{"t": 0}] * 3

        observations, rewards, dones, infos = env.step(np.array([1, 2, 3]))
        assert places(observations) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
        assert (rewards.tolist(), dones.tolist()) == ([11.0, 12.0, 13.0], [False] * 3)
        assert infos == [{"t": 1, "TimeLimit.truncated": False}] * 3

        observations, rewards, dones, infos = env.step(np.array([1, 2, 3]))
        assert places(observations) == [(0, 1, 0), (1, 0, 2), (2, 1, 0)]
        assert (rewards.tolist(), dones.tolist()) == ([21.0, 22.0, 23.0], [True, False, True])
        assert [info.pop("terminal_observation").tolist() for info in (infos[0], infos[2])] == [[0, 0, 2], [2, 0, 2]]
        # terminated; goes on; both flags, which is no time limit
        assert infos == [{"t": 2, "TimeLimit.truncated": False}] * 3
        assert env.reset_infos == [{"t": 0}] * 3

        _, _, dones, infos = env.step(np.array([0, 0, 0]))
        assert dones.tolist() == [False, True, False]
        assert infos[1].pop("terminal_observation").tolist() == [1, 0, 3]
        assert infos[1] == {"t": 3, "TimeLimit.truncated": True}


def test_infos_of_resets_are_those_of_the_episodes_that_begin() -> None:
    env = to_sb3(coded(autoreset_options=lambda slot, episode: {"at": 1} if slot == 1 else None))
    env.reset()
    for _ in range(3):
        _, _, _, infos = env.step(np.array([0, 0]))
    assert env.reset_infos == [{"t": 0}, {"t": 1}]
    assert infos[1].keys() == {"t", "TimeLimit.truncated", "terminal_observation"}


@pytest.mark.parametrize(
    ("ending", "flag"), [("terminated", False), ("truncated", True), ("both", False), (None, False)]
)
def test_the_time_limit_key_is_truncated_and_not_terminated(ending: Any, flag: bool) -> None:
    env = to_sb3(coded(lengths=(1 if ending else 9,), endings=[ending or "terminated"]))
    env.reset()
    _, _, dones, infos = env.step(np.array([0]))
    assert (bool(dones[0]), infos[0]["TimeLimit.truncated"]) == (ending is not None, flag)


def test_a_dummy_vec_env_of_the_same_environments_says_the_same() -> None:
    def maker(slot: int) -> Any:
        return lambda: Fresh(factory(slot, (2, 3, 2)[slot], ALL[slot])())

    theirs, ours = DummyVecEnv([maker(slot) for slot in range(3)]), to_sb3(coded(lengths=(2, 3, 2), endings=ALL))
    assert places(ours.reset()) == places(theirs.reset())
    ended = 0
    for step in range(12):
        actions = np.array([step % 10, 1, 2])
        mine, other = ours.step(actions), theirs.step(actions)
        for left, right in zip(mine[:3], other[:3], strict=True):
            assert left.tolist() == right.tolist()
        for left, right in zip(mine[3], other[3], strict=True):
            ended += "terminal_observation" in right
            last = [info.pop("terminal_observation", np.zeros(0)).tolist() for info in (left, right)]
            assert last[0] == last[1]
            assert left == right
        assert ours.reset_infos == theirs.reset_infos
    assert ended == 6 + 4 + 6


class Kept(KVWriter):
    """Keeps what SB3 logs as the mean return."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
        self.means.append(key_values["rollout/ep_rew_mean"])


def learned(backend: str) -> tuple[Any, Any, list[float]]:
    vec = coded(backend, (4, 5, 6, 4), ("terminated", "truncated", "both", "truncated"))
    vec = sekai.VecRecordEpisodeStatistics(sekai.VecNormalizeObservation(vec), deque_size=None)
    with vec:
        model = PPO("MlpPolicy", to_sb3(vec), n_steps=64, batch_size=64, learning_rate=3e-3, seed=1, device="cpu")
        kept = Kept()
        model.set_logger(Logger(None, [kept]))
        model.learn(6000)
    return model, list(vec.tracker.episodes), kept.means


@pytest.mark.parametrize("backend", ["sync", "proc", "native"])
def test_ppo_learns_and_logs_our_returns(backend: str) -> None:
    model, episodes, means = learned(backend)
    assert model.num_timesteps >= 6000
    logged = [(episode["r"], episode["l"]) for episode in model.ep_info_buffer]
    assert logged == [(episode.episode_return, episode.episode_length) for episode in episodes[-100:]]
    assert {set(episode) == {"r", "l", "t"} for episode in model.ep_info_buffer} == {True}
    mean = np.mean([episode.episode_return for episode in episodes[-100:]])
    assert means[-1] == pytest.approx(mean)
    # the reward of step t is 10 t + action, with 10 actions: what is left is the mean action
    actions = [
        (episode.episode_return - 5.0 * episode.episode_length * (episode.episode_length + 1)) / episode.episode_length
        for episode in episodes
    ]
    assert np.mean(actions[:50]) < 5.5
    assert np.mean(actions[-50:]) > 6.5


def test_replay_stores_the_true_successor_of_every_transition() -> None:
    vec = coded(lengths=(2, 3), endings=("terminated", "truncated"))
    model = DQN("MlpPolicy", to_sb3(vec), buffer_size=200, learning_starts=1000, device="cpu", seed=0)
    model.learn(80)
    buffer = model.replay_buffer
    assert buffer is not None and buffer.pos == 40
    before, after = buffer.observations[:40], buffer.next_observations[:40]
    # of one slot and episode, one step later: an autoreset's observation would be of the next episode, at step 0
    assert (after - before == [0, 0, 1]).all()
    ends = buffer.dones[:40].astype(bool)
    assert (ends[:, 0] == (after[:, 0, 2] == 2)).all() and (ends[:, 1] == (after[:, 1, 2] == 3)).all()
    assert (buffer.timeouts[:40, 1] == ends[:, 1]).all() and not buffer.timeouts[:40, 0].any()


def test_ppo_bootstraps_a_truncation_from_the_last_observation() -> None:
    vec = coded(lengths=(3,), endings=("truncated",))
    model = PPO("MlpPolicy", to_sb3(vec), n_steps=6, batch_size=6, learning_rate=0.0, gamma=0.5, seed=0, device="cpu")
    model.learn(6)
    buffer = model.rollout_buffer
    # flattened by the update; of one slot, so in the order of time
    raw = 10.0 * (buffer.observations[:, 2] + 1) + buffer.actions[:, 0]
    added = buffer.rewards[:, 0] - raw
    for row, episode in ((2, 0), (5, 1)):
        value = {}
        for name, place in {"last": (0, episode, 3), "next": (0, episode + 1, 0), "before": (0, episode, 2)}.items():
            tensor, _ = model.policy.obs_to_tensor(np.array([place], np.float64))
            value[name] = 0.5 * float(model.policy.predict_values(tensor).detach())
        assert added[row] == pytest.approx(value["last"], abs=1e-4)
        assert min(abs(value["last"] - value[wrong]) for wrong in ("next", "before")) > 1e-3
    assert added[[0, 1, 3, 4]] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_seed_acts_at_the_next_reset_as_reset_with_that_seed(backend: str) -> None:
    if backend == "native":
        ours, plain = (sekai.make_vec("Trading-v0", num_envs=3, vectorization_mode="native") for _ in range(2))
    else:
        ours, plain = (sekai.make_vec("CartPole-v1", num_envs=3, vectorization_mode=backend) for _ in range(2))
    with ours, plain:
        env = to_sb3(ours)
        assert list(env.seed(7)) == spawn_seeds(7, 3)
        first = env.reset()
        assert first.tolist() == plain.reset(seed=7).observations.tolist()
        assert env.reset().tolist() == plain.reset().observations.tolist()  # once only


def test_seed_without_a_number_draws_one_and_moves_nothing() -> None:
    vec = drawn()
    env = to_sb3(vec)
    before = np.random.get_state()[1].tolist()
    seeds = env.seed()
    assert len(set(seeds)) == 3 and set(seeds) != set(env.seed())
    assert np.random.get_state()[1].tolist() == before
    assert vec.get_attr("heard") == [[], [], []]


def test_options_are_given_once_to_every_slot_or_one_by_one() -> None:
    vec = drawn()
    env = to_sb3(vec)
    given = {"at": [1]}
    env.set_options(given)
    given["at"].append(2)
    env.reset()
    assert env.reset_infos == [{"options": {"at": [1]}}] * 3
    env.reset()
    assert env.reset_infos == [{"options": None}] * 3
    env.set_options([{"a": 1}, {}, {"c": 3}])
    env.reset()
    assert [info["options"] for info in env.reset_infos] == [{"a": 1}, None, {"c": 3}]
    env.set_options([{"a": 1}])
    with pytest.raises(ValueError, match=re.escape("options has 1 entries; expected 3, one per sub-env.")):
        env.reset()


@pytest.mark.parametrize("backend", ["sync", "proc"])
def test_attributes_and_methods_of_some_slots(backend: str) -> None:
    with drawn(backend) as vec:
        env = to_sb3(vec)
        assert env.env_method("raised_by", 2) == [2, 2, 2]
        assert env.env_method("raised_by", amount=1, indices=0) == [3]
        assert env.env_method("raised_by", 2, indices=[2, 0]) == [4, 5]
        assert env.env_method("raised_by", 1, indices=[1]) == [3]
        assert env.get_attr("level") == [5, 3, 4]
        assert env.get_attr("level", indices=np.int64(1)) == [3]
        env.set_attr("level", 10, indices=[-1])
        assert env.get_attr("level", indices=[2, 1]) == [10, 3]
        env.set_attr("level", 0)
        assert env.get_attr("level") == [0, 0, 0]
        assert env.has_attr("level") and not env.has_attr("levle")
        with pytest.raises(AttributeError, match=re.escape("has no attribute 'levle'. Did you mean 'level'")):
            env.env_method("levle", indices=[1])


def test_slots_of_a_native_environment_share_methods_and_most_attributes() -> None:
    vec = coded("native", (4, 5), max_episode_steps=7)
    env = to_sb3(vec)
    env.set_attr("length", 9, indices=[1])
    assert env.get_attr("length") == [4, 9]
    with pytest.raises(ValueError) as shared:
        env.set_attr("max_episode_steps", 3, indices=[1])
    assert str(shared.value) == (
        "The sub-envs of CodedVecEnv(num_envs=2) share one 'max_episode_steps'; set it for all, without indices=[1]."
    )
    vec.table = np.zeros(5)
    with pytest.raises(ValueError, match="share one 'table'; set it for all, without"):
        env.set_attr("table", 3, indices=[1])
    env.set_attr("max_episode_steps", 3)
    assert vec.get_attr("max_episode_steps") == [3, 3]
    with pytest.raises(ValueError) as method:
        env.env_method("layers", indices=0)
    assert str(method.value) == (
        "CodedVecEnv(num_envs=2) has no sub-env objects, and layers() acts on all slots at once: call it without "
        "indices=[0]."
    )


def test_env_is_wrapped_knows_layers_by_name_and_recorders_as_monitors() -> None:
    env = to_sb3(sekai.SyncVecEnv([lambda: sekai.ClipReward(Drawn(), -1.0, 1.0)] * 2))
    assert env.env_is_wrapped(sekai.ClipReward) == [True, True]
    assert env.env_is_wrapped(sekai.TimeLimit, indices=1) == [False]
    assert env.env_is_wrapped(Monitor) == [False, False]
    assert to_sb3(sekai.VecRecordEpisodeStatistics(drawn())).env_is_wrapped(Monitor, indices=[0]) == [True]
    assert to_sb3(sekai.SyncVecEnv([lambda: Monitor(Drawn())])).env_is_wrapped(Monitor) == [True]


def test_evaluate_policy_of_sb3_reads_our_returns_without_a_warning() -> None:
    env = to_sb3(sekai.VecRecordEpisodeStatistics(coded(lengths=(2, 3))))
    model = PPO("MlpPolicy", env, device="cpu")
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=4, return_episode_rewards=True)
    assert sorted(lengths) == [2, 2, 3, 3]
    # 10 + 20 and 10 + 20 + 30, and a digit for each action
    assert all(30 <= r < 50 if n == 2 else 60 <= r < 90 for r, n in zip(returns, lengths, strict=True))


def test_vec_monitor_of_sb3_counts_what_we_count() -> None:
    vec = sekai.VecRecordEpisodeStatistics(coded(lengths=(2, 3)))
    recorded, monitored = to_sb3(vec), VecMonitor(to_sb3(coded(lengths=(2, 3))))
    recorded.reset(), monitored.reset()
    seen, kinds = [], set()
    for _ in range(6):
        kinds |= {type(info["episode"]) for info in recorded.step(np.array([1, 2]))[3] if "episode" in info}
        seen += [info["episode"] for info in monitored.step(np.array([1, 2]))[3] if "episode" in info]
    ours = [(episode.episode_return, episode.episode_length) for episode in vec.tracker.episodes]
    assert ours == [(episode["r"], episode["l"]) for episode in seen] == [(32, 2), (66, 3), (32, 2), (32, 2), (66, 3)]
    assert kinds == {dict}


def test_pictures_come_from_the_sub_environments() -> None:
    env = to_sb3(sekai.make_vec("Trading-v0", num_envs=2, vectorization_mode="sync", render_mode="rgb_array"))
    assert (env.render_mode, env.metadata["render_modes"]) == ("rgb_array", ["human", "rgb_array"])
    env.reset()
    images = env.get_images()
    assert len(images) == 2 and images[0].ndim == 3
    assert env.render().shape[1] == 2 * images[0].shape[1] or env.render().shape[0] == 2 * images[0].shape[0]
    env.close()
    blind = to_sb3(drawn())
    with pytest.warns(UserWarning, match=re.escape("render_mode is None; pictures need 'rgb_array'.")):
        assert blind.get_images() == [None] * 3


def test_calls_out_of_order_are_named() -> None:
    env = to_sb3(coded())
    env.reset()
    with pytest.raises(RuntimeError, match=re.escape("step_wait() was called without step_async(actions)")):
        env.step_wait()
    actions = np.array([1, 2])
    env.step_async(actions)
    actions[:] = 9
    with pytest.raises(sekai.VecEnvBusy, match=re.escape("step_async() was called twice")):
        env.step_async(actions)
    assert env.step_wait()[1].tolist() == [11.0, 12.0]  # the actions as they were given
    env.step_async(actions)
    env.reset()  # drops the step
    env.step_async(np.array([3, 3]))
    assert env.step_wait()[1].tolist() == [13.0, 13.0]


def test_rows_lost_in_a_failed_step_ask_for_a_reset() -> None:
    class Fails(Drawn):
        def step(self, action: Any) -> sekai.StepResult:
            if action == 1:
                raise ValueError("went wrong")
            return super().step(action)

    env = to_sb3(sekai.SyncVecEnv([Drawn, Fails]))
    env.reset()
    with pytest.raises(ValueError, match="went wrong"):
        env.step(np.array([1, 1]))
    with pytest.raises(sekai.ResetRequired) as lost:
        env.step(np.array([0, 0]))
    assert str(lost.value) == (
        "The latest rows of sub-envs [0, 1] were never seen, since an earlier call failed, and Stable-Baselines3 "
        "cannot leave a row out: call reset() first."
    )
    env.reset()
    env.step(np.array([0, 0]))


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_other_modes_are_refused_with_what_to_write(mode: str) -> None:
    with pytest.raises(ValueError) as refused:
        to_sb3(coded(mode=mode))
    assert str(refused.value) == (
        f"SyncVecEnv(num_envs=2) has autoreset={mode!r}, and Stable-Baselines3 knows only same_step: build it with "
        "autoreset='same_step' (make_vec: vector_kwargs={'autoreset': 'same_step'})."
    )


def test_what_is_no_sekai_vector_environment_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("first call sekai.compat.from_gymnasium_vector(env).")):
        to_sb3(gymnasium.make_vec("CartPole-v1", num_envs=1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("make one with sekai.make_vec(id, num_envs=...).")):
        to_sb3(Drawn())  # type: ignore[arg-type]


def with_actions(space: Any) -> Any:
    return CodedVecEnv(2, action_space=space)


def test_action_spaces_that_sb3_would_mistake_are_refused() -> None:
    with pytest.raises(ValueError, match="without finite bounds, which squashed and clipped policies need"):
        to_sb3(with_actions(sekai.Box(-np.inf, np.inf, ())))
    with pytest.raises(ValueError, match="counts actions from 0: shift it, with start=0"):
        to_sb3(with_actions(sekai.Discrete(3, start=1)))
    with pytest.raises(ValueError, match="has bounds of its own: leave it out"):
        to_sb3(with_actions(sekai.Box(-1.0, 1.0, ())), action_bounds=(-2, 2))
    for bad in ((1, -1), (-np.inf, 1)):
        with pytest.raises(ValueError, match=re.escape("expected finite (low, high) with low < high.")):
            to_sb3(with_actions(sekai.Box(-np.inf, np.inf, ())), action_bounds=bad)
    assert to_sb3(with_actions(sekai.Box(-1.0, 1.0, ()))).action_space == sekai.Box(-1.0, 1.0, ())
    half = to_sb3(with_actions(sekai.Box(0.0, np.inf, ())), action_bounds=(-2, 2))
    assert half.action_space == sekai.Box(0.0, 2.0, ())


def test_importing_the_adapters_loads_neither_torch_nor_sb3() -> None:
    code = (
        "import sys, sekai, sekai.compat, sekai.compat.to_sb3\n"
        "print(sorted({'torch', 'stable_baselines3', 'pettingzoo'} & set(sys.modules)))\n"
        "sekai.compat.to_sb3(sekai.make_vec('CartPole-v1', num_envs=1))\n"
        "print('stable_baselines3' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[]\nTrue\n", "")


def test_without_sb3_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)  # as where it is not installed
    for name in [name for name in sys.modules if name.startswith(("stable_baselines3.", "sekai.compat.sb3"))]:
        monkeypatch.delitem(sys.modules, name)
    with warnings.catch_warnings(), pytest.raises(ModuleNotFoundError) as missing:
        to_sb3(coded())
    assert str(missing.value) == "to_sb3 needs Stable-Baselines3: pip install 'sekai-rl[safety]'."
