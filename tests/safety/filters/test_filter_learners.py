"""Learners inside a filter, and filters made of what a learner knows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from sekai.safety.contract import require_margins  # noqa: E402
from sekai.safety.envs import SafetyVecEnv  # noqa: E402
from sekai.safety.filters import (  # noqa: E402
    ActionValue,
    BestOf,
    FilteredEnv,
    NextValue,
    Shield,
    StateValue,
    action_value_of,
    policy_of,
    value_of,
)
from sekai.safety.learners import SafetyPPO, SafetySAC  # noqa: E402
from sekai.safety.oracle import exact_value  # noqa: E402
from sekai.safety.systems import DoubleIntegrator, DubinsCar, LinearPendulum  # noqa: E402
from tests.safety.filters.braking import exact_shield  # noqa: E402

SYSTEM = DoubleIntegrator()


def filtered(slots: int = 8) -> tuple[FilteredEnv, list[Any]]:
    """The exact filter around episodes that begin in the middle, and what it has had executed."""
    vec = SafetyVecEnv(slots, SYSTEM, autoreset_options=lambda slot, episode: {"state": [0.0, 0.0]}, time_limit=50)
    executed: list[Any] = []
    step = vec._step

    def noting(actions: Any) -> Any:
        executed.append(actions.copy())
        return step(actions)

    vec._step = noting  # type: ignore[method-assign]
    return FilteredEnv(vec, exact_shield(SYSTEM), states=lambda: vec.states), executed


def test_an_off_policy_learner_learns_from_what_was_executed() -> None:
    env, executed = filtered()
    model = SafetySAC("MlpPolicy", env, seed=0, device="cpu", learning_starts=100_000, policy_kwargs={"net_arch": [8]})
    model.learn(8 * 200)
    replayed = model.replay_buffer.actions[:200].cpu().numpy()
    np.testing.assert_allclose(replayed.reshape(200, 8, 1), np.array(executed), atol=1e-6)
    # the actions asked for are drawn evenly, and every one that would have led out of the set was another
    assert (abs(replayed) == 1.0).mean() > 0.02


def test_an_on_policy_learner_trains_inside_a_filter_and_sees_no_failure() -> None:
    env, executed = filtered()
    model = SafetyPPO("MlpPolicy", env, seed=0, device="cpu", n_steps=64, batch_size=128)
    model.learn(8 * 64)
    require_margins(env, "avoid")  # rewards arrive as they are
    assert len(executed) == 64
    # but for the first episodes, whose random starts may be doomed
    assert float(model.rollout_buffer.g.reshape(64, 8)[60:].min()) >= 0


class Known:
    """What is asked of a learner, with the exact value of the pendulum; its policy brakes."""

    system = LinearPendulum()

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        assert deterministic and observation.dtype == np.float32
        return -np.sign(observation[:, 1:]), None

    def predict_value(self, observations: Any) -> Any:
        assert observations.dtype == np.float32
        return exact_value(self.system, observations.astype(np.float64))


def test_value_and_policy_of_a_learner_take_states_of_a_system() -> None:
    states = np.array([[0.1, 0.2], [0.2, -0.3]])
    value, policy = value_of(Known(), Known.system), policy_of(Known(), Known.system)
    assert value(states) == pytest.approx(exact_value(Known.system, states), abs=1e-6)
    assert policy(states).tolist() == [[-1.0], [1.0]]
    assert value_of(Known())(states.astype(np.float32)) == pytest.approx(value(states))


def test_the_critics_of_sac_judge_actions_in_the_units_of_the_environment() -> None:
    system = DoubleIntegrator(acceleration=2.0)
    model = SafetySAC("MlpPolicy", SafetyVecEnv(8, system), seed=0, device="cpu", policy_kwargs={"net_arch": [8]})
    states = np.array([[0.1, 0.2], [0.2, -0.3], [0.5, 0.5]])
    controls = model.predict(states.astype(np.float32), deterministic=True)[0]
    q = action_value_of(model, system)
    # at the action of the mode, Q is what is called the value
    assert q(states, controls) == pytest.approx(model.predict_value(states.astype(np.float32)), abs=1e-6)
    with torch.no_grad():  # 1 m/s² of 2 is half of what the critics know
        rows = torch.as_tensor(states, dtype=torch.float32)
        halves = torch.cat(model.critic(rows, torch.full((3, 1), 0.5)), 1).amin(1)
    assert q(states, np.ones((3, 1))) == pytest.approx(halves.numpy(), abs=1e-6)
    assert ActionValue(q).margins(states, np.ones((3, 1))) == pytest.approx(halves.numpy(), abs=1e-6)
    with pytest.raises(TypeError, match="Known has no predict_action_value: use value_of, or a learner such as SAC"):
        action_value_of(Known())


def test_of_a_system_whose_observations_are_no_states() -> None:
    system = DubinsCar()
    vec = SafetyVecEnv(4, system)
    model = SafetyPPO("MlpPolicy", vec, seed=0, device="cpu", n_steps=8, batch_size=32)
    by_state = Shield(NextValue(system, value_of(model, system)), policy_of(model, system), vec.action_space)
    by_observation = Shield(StateValue(value_of(model)), policy_of(model), vec.action_space)
    for env in (FilteredEnv(vec, by_state, states=lambda: vec.states), FilteredEnv(vec, by_observation)):
        env.reset(seed=0)
        result = env.step(np.zeros((4, *vec.action_space.shape), np.float32))
        assert result.infos.columns["intervened"][0].shape == (4,)


def test_the_best_candidate_of_a_pendulum_keeps_what_can_be_kept() -> None:
    # another system than that of the other tests; its value in continuous time, with a reserve for the sampling
    system = LinearPendulum()
    monitor = NextValue(system, partial(exact_value, system))
    fallback = BestOf(monitor, system.control.points())
    rng = np.random.default_rng(0)
    states = system.start(rng.random((4000, 2)))
    states = states[exact_value(system, states) >= 0.03]
    vec = SafetyVecEnv(len(states), system)
    shield = Shield(monitor, fallback, vec.action_space, threshold=0.02)
    shield.begin(np.ones(len(states), bool))
    for _ in range(100):
        decision = shield.filter(states, rng.uniform(-3, 3, (len(states), 1)))
        states = system.step(states, decision.actions.astype(np.float64))
        assert system.g(states).min() >= 0
