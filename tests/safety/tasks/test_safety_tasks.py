"""`SafetyTask`: the mode follows from the margins, and what has no meaning is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.errors import EnvAlreadyRegistered, EnvNotFound
from sekai.safety.contract import MarginState, MarginWrapper, check_safety_env
from sekai.safety.envs import SafetyEnv, SafetyVecEnv
from sekai.safety.systems import DoubleIntegrator, DubinsCar, System
from sekai.safety.tasks import (
    SafetyTask,
    all_of,
    all_tasks,
    clamped,
    deregister_task,
    find_task,
    register_task,
    with_margins,
)

WALLS = "safety/DoubleIntegrator-v0"
TOUCH = "safety/DoubleIntegratorTouch-v0"
FORCE = "safety/DoubleIntegratorForce-v0"


def slow(state: Any) -> Any:
    return 0.5 - abs(state[..., 1])


def near(state: Any) -> Any:
    return 0.1 - abs(state[..., 0])


def upright(state: MarginState) -> float:
    return 0.2 - abs(float(state.env.state[2]))


def moving_right(state: MarginState) -> float:
    return float(state.env.state[1]) - 0.5


def cart_pole(**options: Any) -> gymnasium.Env[Any, Any]:
    return sekai.make("CartPole-v1", **options)


def refused(message: str) -> Any:
    return pytest.raises((ValueError, TypeError), match=f"^{re.escape(message)}$")


def test_every_safety_environment_is_a_task_of_the_mode_of_its_margins() -> None:
    ids = {entry.id for entry in sekai.all_specs() if entry.id.startswith("safety/")}
    assert ids and ids <= {task.id for task in all_tasks()}
    for task in all_tasks():
        system = task.system()
        assert system is not None and task.description
        assert task.mode == ("reach-avoid" if system.provides_l else "avoid")
        assert task.supports_adversary == (system.disturbance is not None)


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.id)
def test_one_and_many_environments_of_a_task_keep_the_contract(task: SafetyTask) -> None:
    vec = task.vec(4)
    assert isinstance(vec, SafetyVecEnv) and vec.num_envs == 4
    for made in (task.env(), vec):
        assert [problem for problem in check_safety_env(made, steps=300) if problem.severity == "error"] == []
        made.close()


def test_the_mode_is_that_of_the_margins() -> None:
    assert SafetyTask(id="a", make=DoubleIntegrator, g=slow).mode == "avoid"
    assert SafetyTask(id="a", make=DoubleIntegrator, g=slow, l=near).mode == "reach-avoid"


def test_margins_of_states_replace_those_of_a_system() -> None:
    task = SafetyTask(id="a", make=DoubleIntegrator, g=slow, l=near)
    env: Any = task.env(integrator="euler")
    # euler, dt .05, u = 1: x = .2 + .4 * .05 = .22, v = .4 + .05 = .45; g = .5 - .45 and l = .1 - .22
    env.reset(options={"state": [0.2, 0.4]})
    step = env.step(np.ones(1))
    assert step.reward == pytest.approx(0.05) and step.info["l_x"] == pytest.approx(-0.12)
    # v = .5: g = 0, which has not failed; the next one has
    assert not env.step(np.ones(1)).terminated and env.step(np.ones(1)).terminated
    system = task.system(half_width=2.0)
    assert system is not None and system.provides_l and "half_width=2.0" in repr(system)


def test_many_environments_step_like_one() -> None:
    task = SafetyTask(id="a", make=DoubleIntegrator, g=slow)
    vec: Any = task.vec(2, time_limit=3)
    vec.reset(options=[{"state": [0.0, 0.4]}, {"state": [0.0, -0.2]}])
    actions, rewards = np.array([[1.0], [-1.0]], np.float32), []
    single: Any = task.env(time_limit=3)
    single.reset(options={"state": [0.0, 0.4]})
    for _ in range(3):
        result = vec.step(actions)
        rewards.append(result.rewards.tolist())
    # .5 - .45, .5 - .5, .5 - .55 = -.05 and .5 - .25, .5 - .3, .5 - .35 at the limit of three steps
    np.testing.assert_allclose(rewards, [[0.05, 0.25], [0.0, 0.2], [-0.05, 0.15]], atol=1e-12)
    assert result.terminated.tolist() == [True, False] and result.truncated.tolist() == [False, True]
    np.testing.assert_array_equal([single.step(actions[0]).reward for _ in range(3)], [row[0] for row in rewards])


def test_a_composed_task_has_the_margins_and_the_exact_set_of_both() -> None:
    from sekai.safety.truth import truth_of

    system: Any = find_task("safety/DoubleIntegratorSpeed-v0").system(max_speed=0.5)
    assert system.g(np.array([[0.2, 0.1], [0.8, 0.1], [0.2, 0.7]])) == pytest.approx([0.4, 0.2, -0.2])
    assert system.g_max == 0.5
    truth = truth_of(system, cells=121)
    plain = truth_of(DoubleIntegrator())
    # (.2, .4) can brake before the wall; (.2, 1.0) too, but is too fast for good; (.95, .4) hits the wall
    states = np.array([[0.2, 0.4], [0.2, 1.0], [0.95, 0.45]])
    assert (truth(states) >= 0).tolist() == [True, False, False]
    assert (plain(states) >= 0).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="max_speed is 0; expected a speed above 0, in m/s"):
        find_task("safety/DoubleIntegratorSpeed-v0").env(max_speed=0)


def test_an_environment_and_functions_of_its_state_make_a_task() -> None:
    task = SafetyTask(id="a", make=cart_pole, g=upright, l=moving_right)
    env: Any = task.env()
    env.reset(seed=0)
    step = env.step(1)
    angle, speed = env.unwrapped.state[2], env.unwrapped.state[1]
    assert isinstance(env, MarginWrapper)
    assert (step.reward, step.info["l_x"]) == (0.2 - abs(angle), speed - 0.5)
    vec: Any = task.vec(2)
    assert type(vec) is sekai.SyncVecEnv and vec.get_attr("provides_l") == [True, True]
    assert task.system() is None
    assert (
        SafetyTask(id="b", make="CartPole-v1", g=upright).env(max_episode_steps=7).layers()[-2:]
        == (  # type: ignore[attr-defined]
            env.layers()[-2:]
        )
    )


def test_margins_of_an_environment_hide_the_system_in_it() -> None:
    task = SafetyTask(id="a", make=WALLS, g=lambda state: 5.0 - abs(float(state.env.state[0])))
    assert task.system() is None


@pytest.mark.parametrize(
    ("end_criterion", "flags"), [("failure", [False, True]), ("reach-avoid", [True]), ("timeout", [False] * 4)]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_end_criterion_says_what_ends(end_criterion: Any, flags: list[bool], wrapped: bool) -> None:
    if wrapped:
        task = SafetyTask(
            id="a",
            make=lambda: SafetyEnv(DoubleIntegrator(half_width=100.0)),
            g=lambda state: float(slow(state.env.state)),
            l=lambda state: float(state.env.state[1]) - 0.4,
            end_criterion=end_criterion,
        )
    else:
        task = SafetyTask(
            id="a", make=DoubleIntegrator, g=slow, l=lambda state: state[..., 1] - 0.4, end_criterion=end_criterion
        )
    env: Any = task.env()
    env.reset(options={"state": [0.0, 0.4]})
    # v = .45 is in the target of v >= .4; v = .55 is too fast, .5 - .55 < 0
    seen = [bool(env.step(np.ones(1)).terminated)]
    if not seen[0]:
        env.step(np.ones(1))
    while not seen[-1] and len(seen) < len(flags):
        seen.append(bool(env.step(np.ones(1)).terminated))
    assert seen == flags


def test_options_are_those_of_what_is_made_and_of_the_environment_around_it() -> None:
    vec: Any = find_task(FORCE).vec(3, disturbance="random", force_bound=0.125, time_limit=9)
    assert vec.system.force_bound == 0.125 and vec._rules.time_limit == 9 and vec._rules.disturbance == "random"
    task = SafetyTask(id="a", make=DoubleIntegrator, g="own")
    env: Any = task.env(time_limit=7, drift_bound=0.1, disturbance="random")
    assert env.system.time_limit == 7 and env._rules.disturbance == "random"
    with refused("a takes no option 'disturbance': it makes its own environment."):
        SafetyTask(id="a", make=lambda: cart_pole(), g=upright).env(disturbance="zero")


def test_what_is_made_must_be_what_the_task_says() -> None:
    with refused(
        f"{WALLS} is an avoid task, and what it makes has a target: take a task with l='own', or leave the target out."
    ):
        find_task(WALLS).env(target="touch")
    with refused(f"{TOUCH} is a reach-avoid task, and what it makes has no target margin l."):
        find_task(TOUCH).vec(2, target=None)
    with refused(f"{FORCE} supports an adversary, and {DoubleIntegrator()} has no disturbance to choose."):
        find_task(FORCE).env(force_bound=0.0)
    with refused("make of a returned 3; expected a System or an environment."):
        SafetyTask(id="a", make=lambda: 3, g=slow).env()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"make": 3}, "make is 3; expected the id of an environment, or a function that makes one."),
        ({"g": 1.0}, "g is 1.0; expected a function of states, or 'own'."),
        ({"g": None}, "g is None; expected a function of states, or 'own'."),
        ({"l": "mine"}, "l is 'mine'; expected a function of states, or 'own'."),
        ({"g": "own", "l": near}, f"g is 'own' and l is {near!r}; expected both to be 'own', or neither."),
        ({"end_criterion": "never"}, "end_criterion is 'never'; expected one of 'failure', 'reach-avoid', 'timeout'."),
        (
            {"end_criterion": "reach-avoid"},
            "end_criterion is 'reach-avoid', and a has no l, so no target: use 'failure'.",
        ),
    ],
    ids=["make", "g-number", "g-none", "l", "g-own-and-l", "end", "end-without-target"],
)
def test_a_task_that_cannot_be_is_refused(given: Any, message: str) -> None:
    with refused(message):
        SafetyTask(**{"id": "a", "make": DoubleIntegrator, "g": slow, **given})


def test_learners_are_those_of_the_mode() -> None:
    pytest.importorskip("torch")
    assert find_task(WALLS).learner("ppo").__name__ == "SafetyPPO"
    assert find_task(TOUCH).learner("SAC", mode="reach-avoid").__name__ == "ReachAvoidSAC"
    assert find_task(TOUCH).learner("ppo", end_criterion="reach-avoid").__name__ == "ReachAvoidPPO"


def test_what_has_no_meaning_for_a_task_has_no_learner() -> None:
    with refused(f"mode is 'reach-avoid', and {WALLS} is a task of mode 'avoid': it has no target margin l."):
        find_task(WALLS).learner("ppo", mode="reach-avoid")
    with refused(
        f"mode is 'avoid', and {TOUCH} is a task of mode 'reach-avoid': it has a target margin l, which avoid has no "
        "place for."
    ):
        find_task(TOUCH).learner("ppo", mode="avoid")
    with refused(
        f"players is 2, and {WALLS} has nothing for an adversary to choose: use 1. A task whose system has a "
        "disturbance says so by supports_adversary=True."
    ):
        find_task(WALLS).learner("ppo", players=2)
    goes_on = (
        "end_criterion is 'timeout', with which {} goes on after failures: what is seen there would leak into the "
        "values before. Learners need an end where g < 0: 'failure'{}."
    )
    with refused(goes_on.format("a", "")):
        SafetyTask(id="a", make=DoubleIntegrator, g=slow, end_criterion="timeout").learner("ppo")
    with refused(goes_on.format(TOUCH, ", or 'reach-avoid'")):
        find_task(TOUCH).learner("ppo", end_criterion="timeout")
    with refused(
        "end_criterion is 'reach-avoid', and safety/DoubleIntegrator-v0 has no l, so no target: use 'failure'."
    ):
        find_task(WALLS).learner("ppo", end_criterion="reach-avoid")


def test_two_players_have_learners_of_their_own_and_not_of_every_algorithm() -> None:
    pytest.importorskip("torch")
    assert find_task(FORCE).learner("ppo", players=2).__name__ == "SafetyPPO2P"
    for algorithm, players in (("a2c", 2), ("tdmpc", 1)):
        with pytest.raises(
            ValueError, match=re.escape(f"No learner of ('avoid', '{algorithm}', {players}); there are")
        ):
            find_task(FORCE).learner(algorithm, players=players)


def test_ids_are_found_without_a_version_and_close_ones_are_named() -> None:
    assert find_task("safety/DoubleIntegrator").id == WALLS
    with pytest.raises(
        EnvNotFound, match=r"^safety/DoubleIntegratr-v0 is no safety task: .* The closest: safety/DoubleIntegrator-v0,"
    ):
        find_task("safety/DoubleIntegratr-v0")
    with refused("The id of a task is 3 (int); expected a string."):
        find_task(3)  # type: ignore[arg-type]  # what is refused


def test_a_task_of_ones_own_is_registered_once_and_can_be_forgotten() -> None:
    task = SafetyTask(id="mine/Slow-v2", make=DoubleIntegrator, g=clamped(slow, -1.0, 1.0))
    assert register_task(task) is task
    try:
        newer = register_task(SafetyTask(id="mine/Slow-v10", make=DoubleIntegrator, g=slow))
        assert find_task("mine/Slow") is newer and find_task("mine/Slow-v2") is task
        with pytest.raises(EnvAlreadyRegistered, match="The task 'mine/Slow-v2' is registered already"):
            register_task(task)
        deregister_task("mine/Slow-v10")
        assert find_task("mine/Slow") is task
    finally:
        deregister_task("mine/Slow-v2")
    with pytest.raises(EnvNotFound):
        find_task("mine/Slow-v2")
    with pytest.raises(ValueError, match="The id is 'no id'"):
        register_task(SafetyTask(id="no id", make=DoubleIntegrator, g=slow))
    with refused("The task is 'mine'; expected a SafetyTask."):
        register_task("mine")  # type: ignore[arg-type]  # what is refused


def test_a_system_with_other_margins_moves_as_before() -> None:
    car = DubinsCar()
    other: Any = with_margins(car, g=all_of(car.g, car.l))
    states = car.start(np.random.default_rng(0).random((50, 3)))
    controls = np.full((50, 1), 0.3)
    np.testing.assert_array_equal(other.step(states, controls), car.step(states, controls))
    np.testing.assert_array_equal(other.observe(states), car.observe(states))
    np.testing.assert_array_equal(other.g(states), car.l(states))  # the target lies inside of the disc
    assert (
        isinstance(other, System) and not other.provides_l and other.g_max is None and other.failure_horizon_s is None
    )
    assert (other.state_names, other.angles, other.observation_size) == (("x", "y", "h"), ("h",), 4)
    with pytest.raises(ValueError, match="is an avoid system: it has no target, and no l"):
        other.l(states)
    env: Any = SafetyEnv(other)
    assert env.g_range is None


def test_a_system_with_other_margins_says_so_alike_in_every_process() -> None:
    system = with_margins(DoubleIntegrator(), g=slow, l=near, g_max=0.5)
    assert repr(system) == f"with_margins({DoubleIntegrator()!r}, g={__name__}.slow, l={__name__}.near)"
    vec: Any = SafetyVecEnv(2, system)
    vec.reset(seed=0)
    state = vec.get_state()
    twin: Any = SafetyVecEnv(2, with_margins(DoubleIntegrator(), g=slow, l=near))
    twin.reset(seed=1)
    twin.set_state(state)
    np.testing.assert_array_equal(twin.states, vec.states)
    with pytest.raises(ValueError, match="The state is of with_margins"):
        SafetyVecEnv(2, with_margins(DoubleIntegrator(), g=near, l=near)).set_state(state)


def test_margins_that_are_none_are_refused_for_a_system() -> None:
    with refused("g is 0.5; expected a function of states (..., 2)."):
        with_margins(DoubleIntegrator(), g=0.5)  # type: ignore[arg-type]  # what is refused
    with refused("g_max is 0; expected a number above 0, the largest g that any state has, or None."):
        with_margins(DoubleIntegrator(), g=slow, g_max=0)


def test_tasks_need_neither_torch_nor_yaml() -> None:
    code = (
        "import sys, sekai.safety.tasks as tasks; tasks.find_task('safety/PointMass-v0').vec(2); "
        "print({'torch', 'yaml'} & {*sys.modules})"
    )
    path = os.pathsep.join(filter(None, ["src", os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout.strip() == "set()", done.stderr
