"""Imagined rollouts: on a system and on a twin of a native environment, with and without an opponent."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.safety.envs import SafetyVecEnv
from sekai.safety.filters import FilteredEnv, RolloutMonitor, Shield, SystemModel, TwinModel
from sekai.safety.oracle import sampled_value
from sekai.safety.systems import DoubleIntegrator
from sekai.safety.tasks.finance import DrawdownFloor
from tests.safety.filters.braking import SPACE, filtered, violations

SYSTEM = DoubleIntegrator(dt=0.1)


def brake(rows: Any, dt: float = 0.1) -> Any:
    """To a stop, as fast as can be."""
    return np.clip(-rows[:, 1:] / dt, -1, 1)


def at_rest(rows: Any) -> Any:
    """Between the walls, and too slow to get anywhere while what float32 leaves of the speed is braked away."""
    return (abs(rows[:, 1]) <= 1e-6) & (abs(rows[:, 0]) <= 1 - 1e-6)


def monitor(system: DoubleIntegrator = SYSTEM, *, steps: int = 60, **options: Any) -> RolloutMonitor:
    return RolloutMonitor(SystemModel(system, **options), partial(brake, dt=system.dt), at_rest, steps=steps)


def test_a_rollout_by_hand() -> None:
    # (.5, .2), asked: +1. x = .5 + .02 + .005 = .525, v = .3; braking: .55, .2; .565, .1; .57, 0: at rest, g = .43
    # asked 0 at (.5, 0): at rest at once, g = .5
    rows = np.array([[0.5, 0.2], [0.5, 0.0]])
    assert monitor().margins(rows, np.array([[1.0], [0.0]])) == pytest.approx([0.43, 0.5])
    # four steps are just enough to the set, and three are not, though nothing has failed
    assert monitor(steps=4).margins(rows, np.array([[1.0], [0.0]])) == pytest.approx([0.43, 0.5])
    assert monitor(steps=3).margins(rows, np.array([[1.0], [0.0]])).tolist() == [-np.inf, 0.5]


def test_a_rollout_is_over_when_it_has_entered_the_set() -> None:
    # (.5, 0), asked: +.5. x = .5025, v = .05, which the set takes for slow; coasting on from there is not looked at
    slow = RolloutMonitor(
        SystemModel(SYSTEM), lambda rows: np.zeros((1, 1)), lambda rows: abs(rows[:, 1]) < 0.06, steps=60
    )
    assert slow.margins(np.array([[0.5, 0.0]]), np.array([[0.5]])) == pytest.approx([0.4975])


def test_a_failure_on_the_way_is_not_made_good_by_the_end() -> None:
    # (.99, .2): x = 1.005 after one step of braking, g < 0. A fallback that then turns back would come to rest inside
    def back(rows: Any) -> Any:
        return np.where(rows[:, :1] > 0.9, -1.0, brake(rows))

    turning = RolloutMonitor(SystemModel(SYSTEM), back, at_rest, steps=200)
    assert turning.margins(np.array([[0.99, 0.2]]), np.array([[-1.0]])).tolist() == [-np.inf]
    assert np.isfinite(turning.margins(np.array([[0.95, 0.2]]), np.array([[-1.0]]))).all()


def test_the_set_found_by_rollouts_is_the_exact_one() -> None:
    # the best that can be done is full braking, so that an action is safe here where its next value is not negative
    rng = np.random.default_rng(0)
    rows, asked = SYSTEM.start(rng.random((2000, 2))), rng.uniform(-1, 1, (2000, 1))
    after = SYSTEM.step(rows, asked)
    exact = np.minimum(sampled_value(SYSTEM, after), SYSTEM.g(after))
    clear = abs(exact) > 1e-5
    found = monitor().margins(rows, asked) >= 0
    assert 200 < (exact >= 0).sum() < 1800
    assert (found == (exact >= 0))[clear].all()


def shield_of(rollouts: RolloutMonitor) -> Shield:
    return Shield(rollouts, rollouts.fallback, SPACE)


def test_nothing_fails_in_a_system_that_is_imagined_as_it_is() -> None:
    system = DoubleIntegrator(integrator="euler")
    env, _ = filtered(system, shield_of(monitor(system)), 100)
    assert violations(env, 200) == 0


def test_a_wrong_model_fails() -> None:
    real, imagined = DoubleIntegrator(integrator="euler"), DoubleIntegrator(integrator="semi-implicit")
    env, _ = filtered(real, shield_of(monitor(imagined)), 100)
    assert violations(env, 200) > 0


def test_rollouts_that_need_not_end_in_the_set_fail() -> None:
    # who only looks five steps ahead and is content if nothing has failed by then
    system = DoubleIntegrator()
    content = RolloutMonitor(
        SystemModel(system), partial(brake, dt=0.05), lambda rows: np.ones(len(rows), bool), steps=5
    )
    env, _ = filtered(system, shield_of(content), 100)
    assert violations(env, 200) > 0


def worst(states: Any, controls: Any) -> Any:
    """The force that pushes on."""
    return 0.25 * np.where(states[:, 1:] == 0, np.sign(states[:, :1]), np.sign(states[:, 1:]))


PUSHED = DoubleIntegrator(force_bound=0.25)


def resist(rows: Any) -> Any:
    """Back to the middle, whatever pushes."""
    return np.clip(-20 * rows[:, :1] - 20 * rows[:, 1:], -1, 1)


def middle(rows: Any) -> Any:
    """So near to the middle and so slow that braking with what force is left ends far from the walls."""
    return (abs(rows[:, 0]) <= 0.3) & (abs(rows[:, 1]) <= 0.3)


@pytest.mark.parametrize(("disturbance", "fails"), [(worst, False), ("zero", True)])
def test_against_an_opponent_the_rollouts_must_have_one(disturbance: Any, fails: bool) -> None:
    rollouts = RolloutMonitor(SystemModel(PUSHED, disturbance=disturbance), resist, middle, steps=200)
    vec = SafetyVecEnv(100, PUSHED, disturbance=lambda states: worst(states, None), time_limit=400)
    env = FilteredEnv(vec, shield_of(rollouts), states=lambda: vec.states)
    env.reset(seed=0, options={"state": [0.0, 0.0]})
    assert (violations(env, 300) > 0) is fails


def test_samples_are_the_same_within_an_episode_and_new_in_the_next() -> None:
    rollouts = RolloutMonitor(SystemModel(PUSHED, disturbance="sampled", samples=4), resist, middle, steps=50)
    rows, asked = np.full((3, 2), 0.6), np.zeros((3, 1))
    rollouts.begin(np.ones(3, bool))
    first = rollouts.margins(rows, asked)
    assert len(set(first.tolist())) == 3  # each slot has scenarios of its own
    assert (rollouts.margins(rows, asked) == first).all()
    rollouts.begin(np.array([False, True, False]))
    second = rollouts.margins(rows, asked)
    assert (second == first).tolist() == [True, False, True]
    again = RolloutMonitor(SystemModel(PUSHED, disturbance="sampled", samples=4), resist, middle, steps=50)
    again.begin(np.ones(3, bool))
    assert (again.margins(rows, asked) == first).all()
    more = RolloutMonitor(SystemModel(PUSHED, disturbance="sampled", samples=40, seed=1), resist, middle, steps=50)
    assert (more.margins(rows, asked) < first).all()  # the worst of more


def twin_shield(vec: SafetyVecEnv, **options: Any) -> Shield:
    twin = SafetyVecEnv(
        vec.num_envs, vec.system, autoreset_options=lambda slot, episode: {}, time_limit=10_000, **options
    )
    return shield_of(RolloutMonitor(TwinModel(vec, twin), partial(brake, dt=vec.system.dt), at_rest, steps=60))


def test_nothing_fails_in_an_environment_with_a_twin() -> None:
    system = DoubleIntegrator(integrator="semi-implicit")
    env, _ = filtered(system, twin_shield, 50)
    assert violations(env, 150) == 0


def test_a_twin_says_what_the_system_says_and_leaves_the_environment_alone() -> None:
    vec = SafetyVecEnv(500, SYSTEM, autoreset_options=lambda slot, episode: {})
    vec.reset(seed=3)
    before = vec.get_state()
    asked = np.random.default_rng(0).uniform(-1, 1, (500, 1)).astype(np.float32)
    twin = twin_shield(vec).monitor.margins(vec.states, asked)
    after = vec.get_state()
    assert all((before[name] == after[name]).all() for name in before)
    system = monitor().margins(vec.states, asked)
    assert ((twin >= 0) == (system >= 0)).all()
    assert twin == pytest.approx(system, abs=1e-5)


def test_an_imagined_episode_that_is_cut_short_proves_nothing() -> None:
    # at (.5, .2) the way to rest takes four steps, see above, and an episode has three
    vec, twin = (SafetyVecEnv(1, SYSTEM, time_limit=limit) for limit in (100, 3))
    vec.reset(seed=0, options={"state": [0.5, 0.2]})
    short = RolloutMonitor(TwinModel(vec, twin), brake, at_rest, steps=60)
    assert short.margins(vec.states, np.ones((1, 1), np.float32)).tolist() == [-np.inf]
    longer = RolloutMonitor(TwinModel(vec, SafetyVecEnv(1, SYSTEM)), brake, at_rest, steps=60)
    assert longer.margins(vec.states, np.ones((1, 1), np.float32)) == pytest.approx([0.43], abs=1e-6)


def test_a_twin_does_not_know_what_the_environment_will_draw() -> None:
    system = DrawdownFloor()
    vec, twin = (SafetyVecEnv(4, system, disturbance="random") for _ in range(2))
    vec.reset(seed=0)
    model = TwinModel(vec, twin, seed=1)
    model.begin(np.ones(4, bool))
    model.start(None, 0, 1)
    imagined = model.step(np.ones((4, 1), np.float32)).g
    model.start(None, 0, 1)
    assert (model.step(np.ones((4, 1), np.float32)).g == imagined).all()
    model.begin(np.ones(4, bool))
    model.start(None, 0, 1)
    assert (model.step(np.ones((4, 1), np.float32)).g != imagined).all()
    assert (vec.step(np.ones((4, 1), np.float32)).rewards != imagined).all()


def test_what_cannot_be_imagined_is_refused() -> None:
    vec = SafetyVecEnv(2, SYSTEM)
    with pytest.raises(ValueError, match="twin is the environment itself"):
        TwinModel(vec, vec)
    with pytest.raises(TypeError, match="expected native ones"):
        TwinModel(sekai.make_vec("CartPole-v1", 2), vec)
    with pytest.raises(ValueError, match="has no place for one"):
        SystemModel(SYSTEM, disturbance="sampled")
    with pytest.raises(ValueError, match="use 'sampled', or a function"):
        SystemModel(PUSHED, disturbance="worst")
    with pytest.raises(ValueError, match="expected 'zero', 'worst', 'sampled' or a function"):
        SystemModel(PUSHED, disturbance="wrst")
    with pytest.raises(ValueError, match=r"invariant set <lambda> gave float64 of shape \(2,\); expected bool"):
        RolloutMonitor(SystemModel(SYSTEM), brake, lambda rows: rows[:, 0], steps=2).margins(
            np.zeros((2, 2)), np.zeros((2, 1))
        )
