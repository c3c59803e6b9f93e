"""Runs of tasks: their recipes, and weights that are taken from another run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

import sekai  # noqa: E402
from sekai.safety.learners import ReachAvoidPPO, SafetyPPO, SafetySAC  # noqa: E402
from sekai.safety.systems import DoubleIntegrator  # noqa: E402
from sekai.safety.tasks import SafetyTask, deregister_task, register_task  # noqa: E402
from sekai.safety.tasks.recipes import Recipe, read_recipe  # noqa: E402
from sekai.safety.training import RunConfig, load_run, train  # noqa: E402
from sekai.safety.warmstart import warm_start  # noqa: E402

WALLS, SPEED = "safety/DoubleIntegrator-v0", "safety/DoubleIntegratorSpeed-v0"
RUN = RunConfig(task=WALLS, num_envs=8, learner_options={"n_steps": 16, "batch_size": 64, "n_epochs": 1})


def weights(learner: Any) -> dict[str, Any]:
    return {name: value.numpy().copy() for name, value in learner.policy.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def learner_of(cls: Any, task: str = WALLS, **options: Any) -> Any:
    return cls("MlpPolicy", sekai.make_vec(task, 2), device="cpu", **{"seed": 0, **options})


def test_a_run_with_the_weights_of_another_begins_with_them_and_has_its_own_generators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = train(RUN, 256, tmp_path / "walls")
    begun: list[dict[str, Any]] = []
    drawn: list[Any] = []

    def learn(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun.append(weights(self))
        drawn.append(torch.rand(3).tolist())
        return original(self, *args, **kwargs)

    original = SafetyPPO.learn
    monkeypatch.setattr(SafetyPPO, "learn", learn)
    warm = replace(RUN, task=SPEED, seed=1, warmstart=str(tmp_path / "walls"))
    first = train(warm, 128, tmp_path / "warm")
    cold = train(replace(warm, warmstart=None), 128, tmp_path / "cold")
    assert same(begun[0], weights(source)) and not same(begun[1], weights(source))
    assert drawn[0] == drawn[1]  # the seed of the run, whatever the other one was
    assert first.num_timesteps == cold.num_timesteps == 128 and not same(weights(first), weights(cold))

    more = train(warm, 256, tmp_path / "warm")  # goes on with its own weights
    assert more.num_timesteps == 256 and same(begun[2], weights(first)) and not same(begun[2], weights(source))
    assert load_run(tmp_path / "warm")[0] == warm


def test_a_run_writes_the_recipe_that_makes_it_again(tmp_path: Path) -> None:
    run = replace(RUN, task_options={"integrator": "euler"}, seed=3)
    first = train(run, 128, tmp_path / "first")
    train(run, 256, tmp_path / "first")
    train(run, 128, tmp_path / "first")  # nothing is left to do
    recipe = Recipe(**read_recipe(tmp_path / "first" / "recipe.yaml"))
    assert recipe.steps == 256 and recipe.task_options == {"integrator": "euler"} and recipe.mode == "avoid"
    values = dict(vars(recipe))
    again = train(RunConfig(**{name: values[name] for name in values if name != "steps"}), recipe.steps, tmp_path / "b")
    first = load_run(tmp_path / "first")[1]
    assert same(weights(again), weights(first))
    assert (tmp_path / "first" / "recipe.yaml").read_text() == (tmp_path / "b" / "recipe.yaml").read_text()


def test_a_folder_of_before_recipes_goes_on(tmp_path: Path) -> None:
    train(RUN, 128, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["players"], config["warmstart"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "recipe.yaml").unlink()
    assert train(RUN, 256, tmp_path).num_timesteps == 256
    assert read_recipe(tmp_path / "recipe.yaml")["steps"] == 256
    with pytest.raises(ValueError, match="holds another run: warmstart is 'x' and was None"):
        train(replace(RUN, warmstart="x"), 256, tmp_path)


def test_only_runs_of_the_task_that_is_named_give_weights(tmp_path: Path) -> None:
    train(replace(RUN, task=SPEED), 128, tmp_path / "speed")
    train(RUN, 128, tmp_path / "walls")
    for task, source, message in (
        (WALLS, "speed", f"{WALLS} takes no weights of another run: its task has no warmstart_from."),
        (SPEED, "speed", f"{SPEED} takes weights of runs of {WALLS}; this one is of {SPEED}."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            train(replace(RUN, task=task, warmstart=str(tmp_path / source)), 128, tmp_path / "refused")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        train(replace(RUN, task=SPEED, warmstart=str(tmp_path / "none")), 128, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (lambda: learner_of(SafetySAC), "class of the run that gives them: SafetySAC; expected SafetyPPO"),
        (
            lambda: learner_of(ReachAvoidPPO, "safety/DoubleIntegratorTouch-v0"),
            "class of the run that gives them: ReachAvoidPPO; expected SafetyPPO",
        ),
        (lambda: learner_of(SafetyPPO, "safety/DrawdownFloor-v0"), "action space of the run that gives them: Box(0.0"),
        (lambda: learner_of(SafetyPPO, policy_kwargs={"net_arch": [8]}), "networks of the run that gives them: {"),
        (lambda: learner_of(SafetyPPO, normalize_observations=True), "networks of the run that gives them: {"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(source: Any, what: str) -> None:
    learner = learner_of(SafetyPPO)
    before = weights(learner)
    with pytest.raises(ValueError, match=f"^The weights do not fit: {re.escape(what)}"):
        warm_start(learner, source())
    assert same(weights(learner), before)


def test_an_observation_space_of_another_shape_is_refused() -> None:
    learner, other = learner_of(SafetyPPO), learner_of(SafetyPPO)
    other.observation_space = sekai.Box(-1.0, 1.0, (2,))
    with pytest.raises(ValueError, match="observation space of the run that gives them"):
        warm_start(learner, other)


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_all_networks_and_the_statistics_are_taken(algorithm: str) -> None:
    cls = SafetyPPO if algorithm == "ppo" else SafetySAC
    options = {"normalize_observations": True, **({"learning_starts": 8} if algorithm == "sac" else {"n_steps": 16})}
    source = learner_of(cls, seed=5, **options).learn(64)
    learner = learner_of(cls, **options)
    assert not same(weights(learner), weights(source))
    warm_start(learner, source)
    assert same(weights(learner), weights(source)) and learner.num_timesteps == 0
    rows = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)
    np.testing.assert_array_equal(learner.predict_value(rows), source.predict_value(rows))
    assert learner.policy.state_dict().keys() == source.policy.state_dict().keys()
    learner.learn(64)  # its own from here on: nothing is shared
    assert not same(weights(learner), weights(source))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algorithm": "dqn"}, f"The algorithm is 'dqn', which knows Discrete actions, and those of {WALLS} are Box("),
        ({"mode": "reach-avoid"}, "it has no target margin l."),
        ({"players": 2}, "has nothing for an adversary to choose"),
        ({"task_options": {"end_criterion": "timeout"}}, "end_criterion is 'timeout'"),
    ],
)
def test_a_run_without_meaning_is_refused_before_it_leaves_anything(changed: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        train(replace(RUN, learner_options={}, **changed), 128, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_a_task_without_native_environments_is_trained_in_python(tmp_path: Path) -> None:
    def on_track(state: Any) -> float:
        return min(2.4 - abs(float(state.env.state[0])), 0.2 - abs(float(state.env.state[2])))

    task = register_task(SafetyTask(id="mine/CartPole-v0", make="CartPole-v1", g=on_track))
    try:
        learner = task.learner("dqn")("MlpPolicy", task.vec(2), seed=0, device="cpu", learning_starts=16).learn(64)
        assert learner.num_timesteps == 64 and learner.mode == "avoid"
        with pytest.raises(
            ValueError, match=r"^mine/CartPole-v0 has no native vector environment, so no state from which a"
        ):
            train(RunConfig(task=task.id), 64, tmp_path / "refused")
    finally:
        deregister_task(task.id)


def test_a_task_of_ones_own_system_is_trained(tmp_path: Path) -> None:
    def slow(state: Any) -> Any:
        return 0.5 - abs(state[..., 1])

    register_task(SafetyTask(id="mine/Slow-v0", make=DoubleIntegrator, g=slow, warmstart_from=WALLS))
    try:
        train(RUN, 128, tmp_path / "walls")
        run = replace(RUN, task="mine/Slow-v0", warmstart=str(tmp_path / "walls"))
        whole, _ = train(run, 256, tmp_path / "whole"), train(run, 128, tmp_path / "parts")
        assert same(weights(train(run, 256, tmp_path / "parts")), weights(whole))
    finally:
        deregister_task("mine/Slow-v0")
