"""The tasks of finance on every path: one environment, many, tensors; all of them are the system stepped by hand."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.safety.envs import SafetyEnv, SafetyVecEnv
from sekai.safety.systems import DoubleIntegrator, System
from sekai.safety.tasks.finance import BudgetExecution, DrawdownFloor, DrawdownPortfolio, InventoryLimit

TASKS: dict[str, System] = {
    "floor": DrawdownFloor(),
    "fixed": DrawdownFloor(trailing=False),
    "portfolio": DrawdownPortfolio(),
    "maker": InventoryLimit(),
    "order": BudgetExecution(),
    "moved": BudgetExecution(price_shock=0.05),
}


WORST = {
    "DrawdownFloorFixed": (0.7, False, (-0.02,)),
    "DrawdownPortfolio": (0.1, False, (-0.03, -0.06)),
    "InventoryLimit": (1.0, False, (1.0, 0.0, -0.05)),
    "BudgetExecutionShock": (1.0, True, (0.05,)),
}


@pytest.mark.parametrize("name", WORST)
def test_tasks_with_an_adversary_meet_the_worst_of_it(name: str) -> None:
    largest, reach, worst = WORST[name]
    with sekai.make_vec(f"safety/{name}-v0", 4) as vec:
        vec.reset(seed=0)
        shocks, _ = vec.step(np.zeros((4, *vec.action_space.shape), np.float32)).infos.columns["disturbance"]
        assert np.array_equal(shocks, np.tile(vec.system.worst_disturbance, (4, 1)))
        assert (vec.provides_l, vec.g_range) == (reach, (-np.inf, largest))
        assert vec.system.worst_disturbance == pytest.approx(worst)


@pytest.mark.parametrize("name", WORST)
def test_a_player_that_plays_the_worst_is_the_worst(name: str) -> None:
    played, met = (sekai.make(f"safety/{name}-v0", disturbance=way) for way in ("player", "worst"))
    system = played.unwrapped.system
    control = np.full(system.control.size, 0.4, np.float32)
    options = {"state": system.start(np.full(system.state_size, 0.7))}
    for env in (played, met):
        env.reset(options=options)
    both = np.concatenate([control, system.worst_disturbance]).astype(np.float32)
    assert played.step(both).reward == pytest.approx(met.step(control).reward, abs=1e-8)
    gentler = np.concatenate([control, 0.5 * np.array(system.worst_disturbance)])
    met.reset(options=options)
    played.reset(options=options)
    assert played.step(gentler.astype(np.float32)).reward >= met.step(control).reward
    assert not np.array_equal(played.unwrapped.state, met.unwrapped.state)


def test_registered_ids_declare_what_learners_ask_for() -> None:
    floor, order = (sekai.make(f"safety/{name}-v0").unwrapped for name in ("DrawdownFloor", "BudgetExecution"))
    assert (floor.provides_l, floor.dt, floor.g_range) == (False, 0.05, (-np.inf, 0.2))
    assert (order.provides_l, order.dt, order.g_range) == (True, 0.05, (-np.inf, 1.0))
    assert (floor.failure_horizon_s, order.failure_horizon_s) == pytest.approx((0.55, 0.55))


def test_the_registered_drawdown_floor_meets_the_worst_shocks_unless_others_are_asked_for() -> None:
    for options, low, high in (({}, -0.02, -0.02), ({"disturbance": "random"}, -0.02, 0.02)):
        with sekai.make_vec("safety/DrawdownFloor-v0", 300, **options) as vec:
            vec.reset(seed=0)
            drawn, _ = vec.step(np.zeros((300, 1), np.float32)).infos.columns["disturbance"]
        assert low <= drawn.min() < low + 0.001 and high - 0.001 < drawn.max() <= high


def test_a_function_gives_disturbances_on_every_path_and_cannot_move_the_states() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("stable_baselines3")
    from sekai.safety.tensor import SafetyTensorEnv

    def falling(states: Any) -> float:
        states[:] = 0.0
        return -0.01

    vec, tensors = (cls(4, DrawdownFloor(), disturbance=falling) for cls in (SafetyVecEnv, SafetyTensorEnv))
    vec.reset(seed=0)
    tensors.reset_tensor()
    tensors.states = torch.as_tensor(vec.states, dtype=torch.float32)
    expected = DrawdownFloor().step(vec.states.copy(), np.zeros((4, 1)), np.full((4, 1), -0.01))
    g = DrawdownFloor().g(expected)
    assert vec.step(np.zeros((4, 1), np.float32)).rewards == pytest.approx(g)
    assert tensors.step_tensor(torch.zeros(4, 1)).reward_g.numpy() == pytest.approx(g, abs=1e-6)


@pytest.mark.parametrize("system", TASKS.values(), ids=TASKS)
def test_one_environment_many_and_tensors_are_the_system(system: System) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("stable_baselines3")
    from sekai.safety.tensor import SafetyTensorEnv

    worst = {} if system.disturbance is None else {"disturbance": "worst"}
    vec, tensors = SafetyVecEnv(6, system, **worst), SafetyTensorEnv(6, system, **worst)
    single = SafetyEnv(system, **worst)
    vec.reset(seed=0)
    # float32, so that the tensors start in the very same states
    states = vec.states.astype(np.float32).astype(np.float64)
    vec.reset(options=[{"state": state} for state in states])
    single.reset(options={"state": states[0]})
    tensors.reset_tensor()
    tensors.states = torch.as_tensor(states, dtype=torch.float32)
    shock = None if system.worst_disturbance is None else np.array(system.worst_disturbance)
    action = np.full((6, system.control.size), 0.3, np.float32)
    many, on_device, alone = vec.step(action), tensors.step_tensor(torch.as_tensor(action)), single.step(action[0])
    after = system.step(states, action.astype(float), shock)
    assert np.array_equal(many.rewards, system.g(after)) and alone.reward == system.g(after)[0]
    assert on_device.reward_g.numpy() == pytest.approx(system.g(after), abs=1e-6)
    assert np.array_equal(many.terminated, system.g(after) < 0)
    if system.provides_l:
        assert [info["l_x"] for info in many.infos] == system.l(after).tolist()
        assert on_device.l_x.numpy() == pytest.approx(system.l(after), abs=1e-6)
    else:
        assert on_device.l_x is None
    if shock is not None:
        calm = system.step(states, action.astype(float))
        assert (system.g(after) <= system.g(calm)).all() and (after != calm).any(1).sum() >= 5


def test_tensors_know_the_same_disturbances() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("stable_baselines3")
    from sekai.safety.tensor import SafetyTensorEnv

    def falls(**options: Any) -> Any:
        env = SafetyTensorEnv(400, DrawdownFloor(), seed=1, **options)
        env.reset_tensor()
        env.states[:] = torch.tensor([0.9, 1.0])
        return env.step_tensor(torch.ones(400, 1)).final_obs[:, 0] / 0.9 - 1

    assert falls() == pytest.approx(torch.zeros(400), abs=1e-6)
    assert falls(disturbance="worst") == pytest.approx(torch.full((400,), -0.02), abs=1e-6)
    assert falls(disturbance=lambda states: -0.01 * states[:, 1:]) == pytest.approx(torch.full((400,), -0.01), abs=1e-6)
    drawn = falls(disturbance="random")
    assert -0.0201 < drawn.min() < -0.019 and 0.019 < drawn.max() < 0.0201
    assert torch.equal(drawn, falls(disturbance="random"))  # the seed decides
    with pytest.raises(ValueError, match="none is known that is the worst in every state"):
        SafetyTensorEnv(2, DoubleIntegrator(force_bound=0.25), disturbance="worst")
    with pytest.raises(ValueError, match="has no place for one: leave it out"):
        SafetyTensorEnv(2, BudgetExecution(), disturbance="random")


def test_the_tasks_do_without_torch() -> None:
    code = "import sys, sekai; sekai.make('safety/DrawdownFloor-v0').reset(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
