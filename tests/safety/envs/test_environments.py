"""Systems as environments: the contract, the single against the native one, both against the system by hand."""

from __future__ import annotations

from typing import Any

import gymnasium.utils.env_checker
import numpy as np
import pytest

import sekai
from sekai.envs.builtin import SAFETY
from sekai.errors import InvalidAction, ResetRequired
from sekai.safety.checking import check_safety_env
from sekai.safety.envs import SafetyEnv, SafetyVecEnv
from sekai.safety.systems import DoubleIntegrator, LinearPendulum, PointMass, System
from sekai.testing import check_env, check_vec_env

FORCE = DoubleIntegrator(force_bound=0.25, target="touch")


@pytest.mark.parametrize("id", SAFETY)
def test_registered_environments_are_sound(id: str) -> None:
    assert check_env(sekai.make(id), steps=120, determinism=True) == []
    with sekai.make_vec(id, 3) as vec:
        assert isinstance(vec.unwrapped, SafetyVecEnv)
        assert check_vec_env(vec, steps=120) == []


@pytest.mark.parametrize("id", SAFETY)
def test_margins_of_registered_environments_are_sound(id: str) -> None:
    # a failure of unknown depth is declared as -inf, which is a range; random play may not get to a target
    assert [str(problem) for problem in check_safety_env(sekai.make(id)) if problem.rule != "no target"] == []


@pytest.mark.filterwarnings("ignore:.*Box observation space:UserWarning")  # it has no bounds, on purpose
def test_gymnasium_finds_nothing_either() -> None:
    gymnasium.utils.env_checker.check_env(SafetyEnv(FORCE, disturbance="random"), skip_render_check=True)


@pytest.mark.parametrize("autoreset", [True, False, "next_step"])
def test_the_native_one_is_sound_in_every_mode(autoreset: Any) -> None:
    assert check_vec_env(SafetyVecEnv(3, FORCE, disturbance="random", time_limit=7, autoreset=autoreset)) == []


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_other_backends_make_copies_of_the_single_one(mode: str) -> None:
    with sekai.make_vec("safety/PointMass-v0", 2, vectorization_mode=mode, dt=0.1) as vec:
        assert [system.dt for system in vec.get_attr("system")] == [0.1, 0.1]
        assert check_vec_env(vec, steps=40) == []


def test_margins_are_those_of_the_state_after_the_step() -> None:
    env = SafetyEnv("DoubleIntegrator", target="touch", dt=0.1, integrator="semi-implicit")
    env.reset(options={"state": [0.2, 0.5]})
    result = env.step(np.array([-5.0], np.float32))
    # clipped to -1: v = 0.5 - 0.1 = 0.4, x = 0.2 + 0.04 = 0.24; g = 1 - 0.24, l = 0.2 - |0.24 - 0.5|
    assert env.state == pytest.approx([0.24, 0.4])
    assert result.observation == pytest.approx([0.24, 0.4], abs=1e-7) and result.observation.dtype == np.float32
    assert result.reward == pytest.approx(0.76) and result.info["l_x"] == pytest.approx(-0.06)
    assert result.info["executed_action"].tolist() == [-1.0]


def test_an_avoid_task_has_no_l() -> None:
    env = SafetyEnv(DoubleIntegrator())
    env.reset(seed=0)
    assert set(env.step(np.zeros(1)).info) == {"executed_action"} and not env.provides_l


def test_the_episode_ends_where_the_margin_is_negative_and_not_where_it_is_zero() -> None:
    env = SafetyEnv(DoubleIntegrator(dt=0.5, integrator="euler"))
    env.reset(options={"state": [0.5, 1.0]})
    reached = env.step(np.array([0.0]))  # x = 0.5 + 0.5 = 1, so g = 0: still outside the failure set
    assert (reached.reward, reached.terminated, reached.truncated) == (0.0, False, False)
    failed = env.step(np.array([0.0]))  # x = 1.5
    assert (failed.reward, failed.terminated, failed.truncated) == (-0.5, True, False)
    with pytest.raises(ResetRequired):
        env.step(np.array([0.0]))


def test_a_timeout_truncates_and_failure_at_the_limit_terminates() -> None:
    for state, expected in (([0.0, 0.0], (False, True)), ([0.99, 2.0], (True, False))):
        env = SafetyEnv(DoubleIntegrator(), time_limit=1)
        env.reset(options={"state": state})
        result = env.step(np.zeros(1))
        assert (result.terminated, result.truncated) == expected


@pytest.mark.parametrize(
    ("end_criterion", "inside", "failed"),
    [("failure", False, True), ("reach-avoid", True, True), ("timeout", False, False)],
)
def test_end_criteria(end_criterion: str, inside: bool, failed: bool) -> None:
    env = SafetyEnv(PointMass(), end_criterion=end_criterion)
    for state, expected in (([0.0, 9.0], inside), ([0.0, 5.2], failed), ([0.0, 4.0], False)):
        env.reset(options={"state": state})
        assert env.step(np.zeros(1)).terminated is expected


@pytest.mark.parametrize("system", [FORCE, DoubleIntegrator(), LinearPendulum(), PointMass()], ids=str)
def test_both_environments_are_the_system_stepped_by_hand(system: System) -> None:
    rng = np.random.default_rng(0)
    starts, actions = system.start(rng.random((4, system.state_size))), rng.normal(size=(12, 4, 1)).astype(np.float32)
    options = [{"state": state} for state in starts]
    # a policy of the opponent that depends on the state
    kinds = {"disturbance": lambda states: -states[:, 1:]} if system.disturbance else {}
    vec = SafetyVecEnv(4, system, end_criterion="timeout", **kinds)
    singles = [SafetyEnv(system, end_criterion="timeout", **kinds) for _ in options]
    vec.reset(options=options)
    for single, given in zip(singles, options, strict=True):
        single.reset(options=given)
    states = starts
    for batch in actions:
        pushed = -states[:, 1:].clip(-0.25, 0.25) if system.disturbance else None
        states = system.step(states, batch.astype(float), pushed)
        result = vec.step(batch)
        alone = [single.step(action) for single, action in zip(singles, batch, strict=True)]
        assert np.array_equal(result.rewards, system.g(states))
        assert result.rewards.tolist() == [row.reward for row in alone]
        assert np.array_equal(vec.states, states)
        assert np.array_equal(result.observations, [row.observation for row in alone])
        if system.provides_l:
            assert [info["l_x"] for info in result.infos] == system.l(states).tolist()
            assert [row.info["l_x"] for row in alone] == system.l(states).tolist()
        if system.disturbance is not None:
            assert np.array_equal([row.info["disturbance"] for row in alone], pushed)


def test_random_disturbances_fill_the_set_and_zero_ones_are_zero() -> None:
    vec = SafetyVecEnv(500, FORCE, disturbance="random", end_criterion="timeout")
    vec.reset(seed=0)
    drawn, _ = vec.step(np.zeros((500, 1), np.float32)).infos.columns["disturbance"]
    assert -0.25 <= drawn.min() < -0.24 and 0.24 < drawn.max() <= 0.25
    still = SafetyVecEnv(5, FORCE)
    still.reset(seed=0)
    assert not still.step(np.zeros((5, 1), np.float32)).infos.columns["disturbance"][0].any()


def test_waiting_slots_stand_still() -> None:
    vec = SafetyVecEnv(2, LinearPendulum(), autoreset=False)
    vec.reset(options=[{"state": [0.49, 3.0]}, {"state": [0.0, 0.0]}])
    first = vec.step(np.zeros((2, 1), np.float32))
    assert first.terminated.tolist() == [True, False]
    failed = vec.states[0].copy()
    for _ in range(5):
        vec.step(np.zeros((2, 1), np.float32))
    assert np.array_equal(vec.states[0], failed)


def test_both_can_be_stopped_and_resumed_to_the_bit() -> None:
    arguments: dict[str, Any] = {"disturbance": "random", "time_limit": 5}
    env, again = SafetyEnv(FORCE, **arguments), SafetyEnv(FORCE, **arguments)
    env.reset(seed=3, options={"state": [0.0, 0.0]})
    env.step(np.ones(1))
    again.set_state(env.get_state())
    vec, copy = (SafetyVecEnv(3, FORCE, **arguments) for _ in range(2))
    vec.reset(seed=3)
    vec.step(np.ones((3, 1), np.float32))
    copy.set_state(vec.get_state())
    for step in range(4):
        ours, theirs = env.step(np.ones(1)), again.step(np.ones(1))
        assert ours.reward == theirs.reward and ours.done == theirs.done == (step == 3)
    for _ in range(12):  # through several autoresets
        ours, theirs = vec.step(np.ones((3, 1), np.float32)), copy.step(np.ones((3, 1), np.float32))
        assert np.array_equal(ours.observations, theirs.observations)
    assert np.array_equal(env.reset().observation, again.reset().observation)
    with pytest.raises(ValueError, match="system"):
        SafetyEnv(DoubleIntegrator()).set_state(env.get_state())
    with pytest.raises(ValueError, match="The state is of DoubleIntegrator"):
        SafetyVecEnv(3, DoubleIntegrator(), **{"time_limit": 5}).set_state(vec.get_state())


def test_actions_that_are_none_are_refused_and_nothing_moves() -> None:
    env = SafetyEnv(DoubleIntegrator())
    env.reset(seed=0)
    before = env.state
    for action in (np.zeros(2), 0.5, np.array([np.nan])):
        with pytest.raises(InvalidAction, match="expected finite numbers for Box"):
            env.step(action)
    assert np.array_equal(env.state, before) and env.elapsed_steps == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"end_criterion": "success"}, "end_criterion is 'success'; expected one of failure, reach-avoid, timeout."),
        ({"end_criterion": "reach-avoid"}, "has no target to reach: use 'failure'."),
        ({"disturbance": "random"}, "has no place for one: leave it out."),
        (
            {"disturbance": 0.1},
            "disturbance is 0.1; expected 'zero', 'random', 'worst', 'player' or a function of the states.",
        ),
        ({"time_limit": 0}, "time_limit is 0; expected an int of at least 1."),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    for build in (
        lambda: SafetyEnv(DoubleIntegrator(), **arguments),
        lambda: SafetyVecEnv(2, DoubleIntegrator(), **arguments),
    ):
        with pytest.raises(ValueError) as caught:
            build()
        assert str(caught.value).endswith(message)


def test_what_is_the_worst_must_be_known() -> None:
    for build in (SafetyEnv, lambda *given, **options: SafetyVecEnv(2, *given, **options)):
        with pytest.raises(ValueError, match="none is known that is the worst in every state of DoubleIntegrator"):
            build(FORCE, disturbance="worst")
        with pytest.raises(ValueError, match="has no place for one: leave it out"):
            build(LinearPendulum(), disturbance="worst")


@pytest.mark.parametrize("options", [{"state": [0.0]}, {"state": [0.0, np.nan]}, {"x": 1.0}])
def test_options_that_do_not_fit_are_refused_with_the_slot(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        SafetyEnv(DoubleIntegrator()).reset(options=options)
    vec = SafetyVecEnv(2, DoubleIntegrator())
    with pytest.raises(ValueError) as caught:
        vec.reset(options=[None, options])
    assert caught.value.__notes__ == ["These are the options of sub-env 1."]


def test_infinite_disturbances_are_an_error() -> None:
    env = SafetyEnv(FORCE, disturbance=lambda states: np.inf)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected finite numbers"):
        env.step(np.zeros(1))
