"""Learners of two players: whose action is executed where, whose value is reported, who has won, and what goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

from sekai.safety.learners import (  # noqa: E402
    ReachAvoidPPO2P,
    ReachAvoidSAC2P,
    SafetyPPO,
    SafetyPPO2P,
    SafetySAC2P,
    resolve_learner,
)
from sekai.safety.learners.response import best_response  # noqa: E402
from sekai.safety.oracle import Grid, compare_sets  # noqa: E402
from sekai.safety.systems import BallSet, DoubleIntegrator  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv, TensorStep, TensorVecEnv  # noqa: E402
from sekai.safety.training import RunConfig, load_run, train  # noqa: E402
from sekai.safety.truth import truth_of  # noqa: E402
from tests.safety.test_tensor import PER_ROLLOUT, PER_ROLLOUT_REACH_AVOID  # noqa: E402
from tests.safety.watched import Watched as ReadsFromDevice  # noqa: E402

FORCE = DoubleIntegrator(force_bound=0.5)
TOUCH = DoubleIntegrator(force_bound=0.5, target="touch")
LEARNERS = [SafetyPPO2P, ReachAvoidPPO2P, SafetySAC2P, ReachAvoidSAC2P]
SIZE = 16


class Watched(SafetyTensorEnv):
    """Keeps what was seen and given in each step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[Any] = []
        self.given: list[Any] = []

    def step_tensor(self, actions: Any) -> TensorStep:
        self.seen.append(self.states.clone())
        self.given.append(actions.clone())
        return super().step_tensor(actions)


def small(cls: Any, env: Any, **more: Any) -> Any:
    own = {"n_steps": 20} if cls.__name__.count("PPO") else {"learning_starts": 64}
    options = {"league_size": 1, "snapshot_every": 500, "policy_kwargs": {"net_arch": [16]}, **own, **more}
    return cls("MlpPolicy", env, seed=0, device="cpu", **options)


def game(cls: Any, **more: Any) -> Any:
    return small(cls, Watched(SIZE, FORCE if cls.mode == "avoid" else TOUCH, disturbance="player"), **more)


@pytest.mark.parametrize("cls", LEARNERS)
def test_each_block_of_slots_has_the_players_that_it_says(cls: Any) -> None:
    learner = game(cls, learning_starts=0) if "SAC" in cls.__name__ else game(cls)
    learner.learn(SIZE)  # earlier selves are still copies of the players as they began
    env, slots = learner.env, {match.name: match.slots for match in learner.matches}
    rows, given = env.seen[0], env.given[0]
    assert given.shape == (SIZE, 2) and given.abs().amax(0)[1] <= 0.5
    assert not given[slots["zero"], 1].any() and given[slots["current"], 1].all() and given[slots["random"], 1].all()
    first = learner.league.controllers[0], learner.league.disturbances[0]
    controls = learner._mode_of(first[0], rows)  # |u| <= 1 is the box, so these are the units of the environment
    early, late = slots["past_controller_0"], slots["past_disturbance_0"]
    assert torch.allclose(given[early, :1], controls[early], atol=1e-6)
    assert not torch.isclose(given[slots["current"], :1], controls[slots["current"]]).any()  # it explores
    answers = 0.5 * learner._mode_of(first[1], torch.cat([rows, given[:, :1]], 1))
    assert torch.allclose(given[late, 1:], answers[late], atol=1e-6)
    assert not torch.isclose(given[slots["current"], 1:], answers[slots["current"]]).any()


@pytest.mark.parametrize("cls", LEARNERS)
def test_the_controller_is_what_predicts(cls: Any) -> None:
    learner = game(cls)
    rows = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)
    controls, _ = learner.predict(rows, deterministic=True)
    assert controls.shape == (2, 1) and np.abs(controls).max() <= 1.0
    assert learner.predict(rows[0], deterministic=True)[0] == pytest.approx(controls[0], abs=1e-6)
    answers = learner.predict_disturbance(rows, controls)
    assert answers.shape == (2, 1) and np.abs(answers).max() <= 0.5


@pytest.mark.parametrize("cls", [SafetyPPO2P, SafetySAC2P])
def test_controls_are_in_the_units_of_the_environment(cls: Any) -> None:
    strong = DoubleIntegrator(acceleration=4.0, force_bound=0.5)
    learner = small(cls, SafetyTensorEnv(SIZE, strong, disturbance="player"))
    rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    chosen = learner._mode_of(learner._networks()[0], torch.as_tensor(rows)).detach().numpy()
    np.testing.assert_allclose(learner.predict(rows, deterministic=True)[0], 4.0 * chosen, atol=1e-5)


@pytest.mark.parametrize("cls", [SafetyPPO2P, SafetySAC2P])
@pytest.mark.parametrize("sees", [True, False])
def test_the_disturbance_sees_the_control_or_does_not(cls: Any, sees: bool) -> None:
    learner = game(cls, disturbance_sees_control=sees)
    learner.learn(700)
    rows = np.zeros((2, 2), np.float32)
    left, right = learner.predict_disturbance(rows, np.array([[-1.0], [1.0]]))
    assert (left != right).all() == sees


def test_the_value_is_that_of_the_worst_match_of_the_controller_that_learns() -> None:
    learner = game(SafetyPPO2P)
    names = [match.name for match in learner.matches]
    assert names == ["past_controller_0", "current", "past_disturbance_0", "zero", "random"]
    with torch.no_grad():
        learner.policy.value_net.weight.zero_()
        learner.policy.value_net.bias.copy_(torch.tensor([-5.0, 2.0, 0.25, 1.0, 3.0]))
    # the least of all but the first, which is the value of another controller
    assert learner.predict_value(np.zeros((3, 2), np.float32)).tolist() == [0.25] * 3
    rows = torch.zeros((SIZE, 2))
    of_slots = learner._values_of(rows)[:, 0].tolist()
    assert [of_slots[match.slots.start] for match in learner.matches] == [-5.0, 2.0, 0.25, 1.0, 3.0]


def test_the_value_of_sac_is_that_of_the_worst_answer() -> None:
    learner = game(SafetySAC2P)
    rows = torch.zeros((3, 2))
    with torch.no_grad():
        controls = learner.actor(rows, deterministic=True)
        answers = learner._answers(rows, controls)
        assert len(answers) == 2  # the one that learns, and one earlier self
        for network, bias in ((learner.disturbance, -2.0), (learner.league.disturbances[0], 2.0)):
            network.mu.weight.zero_()
            network.mu.bias.fill_(bias)
        values = [
            torch.cat(learner.critic(rows, torch.cat([controls, torch.full((3, 1), np.tanh(b))], 1)), 1).amin(1)
            for b in (-2.0, 2.0)
        ]
    assert not torch.allclose(*values)
    np.testing.assert_allclose(learner.predict_value(rows.numpy()), torch.minimum(*values).numpy(), atol=1e-6)


class Endings(TensorVecEnv):
    """Each slot ends its episode in the first step: g and l as said, cut where g >= 0 and l < 0."""

    provides_l, ctrl_action_dim = True, 1

    def __init__(self, g: list[float], l: list[float]) -> None:  # noqa: E741
        self.g, self.l = torch.tensor(g), torch.tensor(l)
        box = spaces.Box(-1.0, 1.0, (2,), np.float32)
        super().__init__(len(g), spaces.Box(-1.0, 1.0, (1,), np.float32), box)

    def reset_tensor(self) -> Any:
        return torch.zeros((self.num_envs, 1))

    def step_tensor(self, actions: Any) -> TensorStep:
        ended = torch.ones(self.num_envs, dtype=torch.bool)
        return TensorStep(self.reset_tensor(), self.g, ended, (self.g >= 0) & (self.l < 0), self.l)


def test_success_is_a_win_and_a_timeout_is_one_in_avoid_only() -> None:
    # in the order of the matches: target reached; failed; neither; reached only in failing; on the rim of the target
    env = Endings([0.1, -0.1, 0.1, -0.1, 0.2], [0.2, -1.0, -1.0, 0.5, 0.0])
    learner = small(ReachAvoidPPO2P, env, n_steps=4, batch_size=20, snapshot_every=10**6)
    learner.learn(20)
    assert learner.league.win_rates() == {
        "past_controller_0": 1.0,
        "current": 0.0,
        "past_disturbance_0": 0.0,
        "zero": 0.0,
        "random": 1.0,
    }
    learner = small(SafetyPPO2P, env, n_steps=4, batch_size=20, snapshot_every=10**6)
    learner.learn(20)
    assert list(learner.league.win_rates().values()) == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_a_target_that_was_reached_before_the_failure_is_a_win() -> None:
    class Later(Endings):
        """Slots reach the target in odd steps and fail in even ones, which is when they end."""

        steps = 0

        def step_tensor(self, actions: Any) -> TensorStep:
            self.steps += 1
            even = self.steps % 2 == 0
            margin = torch.full((self.num_envs,), -0.1 if even else 0.1)
            ended = torch.full((self.num_envs,), even)
            return TensorStep(self.reset_tensor(), margin, ended, torch.zeros_like(ended), self.l)

    reached, not_reached = [0.2] * 3, [-0.2] * 2
    learner = small(ReachAvoidPPO2P, Later([0.0] * 5, reached + not_reached), n_steps=4, batch_size=20)
    learner.learn(20)
    assert list(learner.league.win_rates().values()) == [1.0, 1.0, 1.0, 0.0, 0.0]


class TwoBoxes(Watched):
    """The same game with `Dict(ctrl, dstb)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        low, high = self.action_space.low, self.action_space.high
        parts = {"ctrl": spaces.Box(low[:1], high[:1]), "dstb": spaces.Box(low[1:], high[1:])}
        self.action_space = spaces.Dict(parts)
        self.ctrl_action_dim = None

    def step_tensor(self, actions: Any) -> TensorStep:
        return super().step_tensor(torch.cat([actions["ctrl"], actions["dstb"]], 1))


class FarTwoBoxes(VecEnv):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """The same as a NumPy environment, whose actions are a list of dicts."""

    provides_l = False

    def __init__(self) -> None:
        self.inside = TwoBoxes(SIZE, FORCE, disturbance="player")
        self.render_mode = None
        super().__init__(SIZE, self.inside.observation_space, self.inside.action_space)

    def reset(self) -> Any:
        return self.inside.reset()

    def step_async(self, actions: Any) -> None:
        assert all(set(action) == {"ctrl", "dstb"} for action in actions)
        columns = {key: torch.as_tensor(np.stack([a[key] for a in actions])) for key in ("ctrl", "dstb")}
        self.step = TensorStep(*self.inside.step_tensor(columns))

    def step_wait(self) -> Any:
        infos = [{"TimeLimit.truncated": bool(cut)} for cut in self.step.timeouts]
        return self.step.obs.numpy(), self.step.reward_g.numpy(), self.step.dones.numpy(), infos

    def close(self) -> None: ...

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, name)] * SIZE

    def set_attr(self, *args: Any) -> None: ...

    def env_method(self, *args: Any, **kwargs: Any) -> list[Any]:
        return []

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * SIZE


def test_two_boxes_of_actions_are_the_same_game_as_one() -> None:
    rows = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)
    learned = []
    for make in (
        lambda: Watched(SIZE, FORCE, disturbance="player"),
        lambda: TwoBoxes(SIZE, FORCE, disturbance="player"),
        FarTwoBoxes,
    ):
        learner = small(SafetyPPO2P, make(), failure_value=-0.5)  # the last one declares no horizon
        learner.learn(640)
        answers = learner.predict_disturbance(rows, np.zeros((2, 1)))
        learned.append([*learner.predict_value(rows), *answers[:, 0]])
    for other in learned[1:]:
        np.testing.assert_array_equal(other, learned[0])


def test_a_set_that_is_no_box_holds_what_is_executed() -> None:
    class Plane(Endings):
        ctrl_action_dim = 1
        disturbance_set = BallSet(1.0, 2)

        def __init__(self) -> None:
            super().__init__([0.1] * 5, [-1.0] * 5)
            self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
            self.longest = 0.0

        def step_tensor(self, actions: Any) -> TensorStep:
            self.longest = max(self.longest, float(actions[:, 1:].norm(dim=1).max()))
            return super().step_tensor(actions)

    env = Plane()
    small(SafetyPPO2P, env, n_steps=40, batch_size=50).learn(200)
    assert 0.99 < env.longest <= 1.0 + 1e-6


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_game_that_goes_on_equals_one_that_was_never_interrupted(algorithm: str, tmp_path: Path) -> None:
    options = {"ppo": {"n_steps": 16, "batch_size": 64}, "sac": {"learning_starts": 64, "buffer_size": 2000}}
    run = RunConfig(
        task="safety/DoubleIntegratorForce-v0",
        algorithm=algorithm,
        players=2,
        num_envs=SIZE,
        task_options={"force_bound": 0.5},
        learner_options={**options[algorithm], "policy_kwargs": {"net_arch": [16]}, "snapshot_every": 300},
    )
    whole = train(run, 1536, tmp_path / "whole")
    train(run, 768, tmp_path / "parts")
    torch.rand(3), np.random.rand(3)  # other programs may draw in between
    parts = train(run, 1536, tmp_path / "parts")
    for name in ("policy", "disturbance", "league"):
        mine, theirs = (getattr(learner, name).state_dict() for learner in (whole, parts))
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine), name
    assert whole.league.born.min() > 0  # the league has been through it
    _, loaded = load_run(tmp_path / "parts")
    rows = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)
    np.testing.assert_array_equal(loaded.predict_value(rows), whole.predict_value(rows))
    answers = [learner.predict_disturbance(rows, np.zeros((2, 1)), past=1) for learner in (loaded, whole)]
    np.testing.assert_array_equal(*answers)


class TwoParts(Endings):
    """Observes a dict."""

    def __init__(self, num_envs: int) -> None:
        super().__init__([0.1] * num_envs, [0.0] * num_envs)
        self.observation_space = spaces.Dict({"x": self.observation_space})


def test_what_has_no_meaning_is_refused() -> None:
    env = SafetyTensorEnv(SIZE, FORCE, disturbance="player")
    with pytest.raises(ValueError, match="SafetyPPO has one player, and the environment declares ctrl_action_dim = 1"):
        SafetyPPO("MlpPolicy", env)
    with pytest.raises(ValueError, match="needs to know which numbers of an action are the disturbance's"):
        SafetyPPO2P("MlpPolicy", SafetyTensorEnv(SIZE, FORCE))
    with pytest.raises(ValueError, match="There are 3 slots, and a league of league_size=2 plays in 7 blocks"):
        SafetyPPO2P("MlpPolicy", SafetyTensorEnv(3, FORCE, disturbance="player"))
    with pytest.raises(ValueError, match=r"league_share is 1\.0; expected a share of the slots"):
        SafetyPPO2P("MlpPolicy", env, league_share=1.0)
    with pytest.raises(ValueError, match=r"target_kl is 0\.1, and PPO of two players updates without it: leave it out"):
        SafetyPPO2P("MlpPolicy", env, target_kl=0.1)
    with pytest.raises(TypeError, match="takes observations of one axis"):
        SafetyPPO2P("MultiInputPolicy", TwoParts(SIZE))
    with pytest.raises(TypeError, match="controller is 3; expected a learner, or a function of observations"):
        best_response(3, env, mode="avoid", steps=1)
    with pytest.raises(ValueError, match="No learner of"):
        resolve_learner("avoid", "dqn", players=2)


def learned_set(learner: Any, system: DoubleIntegrator) -> Any:
    grid = Grid.around(system, 61, margin=0.1)
    alive = system.g(grid.states) >= 0
    learned = learner.predict_value(grid.states.astype(np.float32)) >= 0
    exact = truth_of(system, cells=121)(grid.states) >= 0
    return compare_sets(learned & alive, exact & alive, weights=grid.cells)


def fails(controller: Any, answer: Any, states: Any) -> float:
    """Share of the states from which it fails within 100 steps."""
    failed = np.zeros(len(states), bool)
    for _ in range(100):
        controls = controller(FORCE.observe(states).astype(np.float32))
        states = FORCE.step(states, controls, answer(states, controls))
        failed |= FORCE.g(states) < 0
    return float(failed.mean())


def test_ppo_learns_the_set_of_the_game_and_not_that_without_a_disturbance() -> None:
    env = SafetyTensorEnv(64, FORCE, disturbance="player", seed=0)
    learner = SafetyPPO2P("MlpPolicy", env, seed=0, device="cpu", failure_value=-0.7)
    learner.learn(200_000)
    against = learned_set(learner, FORCE)
    assert against.iou > 0.7 and against.false_safe < 0.05
    # the set without a disturbance is larger: 16/3 sqrt(a) instead of 16/3 sqrt(a - D), 5.33 against 3.77
    assert learned_set(learner, DoubleIntegrator()).missed > 0.25


def test_a_best_response_breaks_what_random_disturbances_do_not() -> None:
    def brakes(observations: Any) -> Any:
        """Half of what it could do, so that a disturbance of 0.5 leaves nothing of it."""
        x, v = observations[:, :1], observations[:, 1:]
        return np.where(np.abs(x + v * np.abs(v)) > 0.8, -0.5 * np.sign(v), 0.0)

    env = SafetyTensorEnv(32, FORCE, disturbance="player", seed=0)
    response = best_response(brakes, env, mode="avoid", steps=40_000, n_steps=50, seed=0)
    rng = np.random.default_rng(0)
    starts = rng.uniform([-0.4, -0.2], [0.4, 0.2], (400, 2))
    assert fails(brakes, lambda states, controls: rng.uniform(-0.5, 0.5, (400, 1)), starts) < 0.1
    assert fails(brakes, response.opponents(FORCE)["current"], starts) > 0.9


@pytest.mark.parametrize("cls", LEARNERS)
@pytest.mark.parametrize("length", [16, 48])
def test_a_rollout_reads_what_that_of_one_player_reads_and_no_step_does(cls: Any, length: int) -> None:
    own = {"n_steps": length} if "PPO" in cls.__name__ else {"train_freq": length}
    learner = small(cls, SafetyTensorEnv(SIZE, FORCE if cls.mode == "avoid" else TOUCH, disturbance="player"), **own)
    learner.learn(length * SIZE)
    _, callback = learner._setup_learn(length * SIZE, reset_num_timesteps=False)
    with ReadsFromDevice() as found:
        if "PPO" in cls.__name__:
            learner.collect_rollouts(learner.env, callback, learner.rollout_buffer, length)
        else:
            learner.collect_rollouts(learner.env, callback, learner.train_freq, learner.replay_buffer)
    allowed = {SafetyPPO2P: PER_ROLLOUT, ReachAvoidPPO2P: PER_ROLLOUT_REACH_AVOID}.get(cls, {})
    assert found.found == Counter({**allowed, "read: item": 0})  # this one declares how it falls
