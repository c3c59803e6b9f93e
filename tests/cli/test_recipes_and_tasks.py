"""`sekai list --tasks`, and `sekai train` from a recipe, with the weights of another run, and on tasks of one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sekai.cli import main

SPEED = "safety/DoubleIntegratorSpeed-v0"
RECIPE = """
task: safety/DoubleIntegrator-v0
seed: 4
steps: 128
num_envs: 8
task_options: {integrator: euler}
learner_options: {n_steps: 16, batch_size: 64, n_epochs: 1, learning_rate: 3e-4}
"""
OWN_TASK = """
from sekai.safety.systems import DoubleIntegrator
from sekai.safety.tasks import SafetyTask, register_task


def slow(state):
    return 0.5 - abs(state[..., 1])


register_task(SafetyTask(id="mine/Slow-v0", make=DoubleIntegrator, g=slow, description="Slowly."))
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("stable_baselines3")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "first.yaml"
    path.write_text(RECIPE)
    return path


def test_tasks_are_listed_with_mode_players_and_whose_weights_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "safety/DoubleIntegratorSpeed-v0 mode=avoid players=1 ends=failure "
        "warmstart_from=safety/DoubleIntegrator-v0 description=The walls and a speed limit: two margins, composed."
    ) in lines
    assert any(line.startswith("safety/DubinsLowTurn-v0 mode=reach-avoid players=1 ") for line in lines)
    assert any(line.startswith("safety/DoubleIntegratorForce-v0 mode=avoid players=1-2 ") for line in lines)
    assert main(["list"]) == 0
    assert SPEED not in capsys.readouterr().out


def test_the_command_line_overrides_a_recipe_and_what_was_run_is_written(recipe: Path, tmp_path: Path) -> None:
    import yaml

    command = ["train", "--recipe", "first.yaml", "--out", "run", "--seed", "0", "--option", "n_epochs=2"]
    assert main([*command, "--task-option", "half_width=2"]) == 0
    written = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert written == {
        "task": "safety/DoubleIntegrator-v0",
        "mode": "avoid",
        "algorithm": "ppo",
        "players": 1,
        "seed": 0,
        "steps": 128,
        "num_envs": 8,
        "task_options": {"integrator": "euler", "half_width": 2},
        "learner_options": {"n_steps": 16, "batch_size": 64, "n_epochs": 2, "learning_rate": 0.0003},
        "warmstart": None,
    }


def test_the_recipe_of_a_run_makes_it_again(recipe: Path, tmp_path: Path) -> None:
    assert main(["train", "--recipe", "first.yaml", "--out", "one", "--algo", "a2c", "--option", "n_steps=8"]) == 2
    # PPO's options are none of A2C's
    assert main(["train", "--recipe", "first.yaml", "--out", "one"]) == 0
    assert main(["train", "--recipe", "one/recipe.yaml", "--out", "two"]) == 0
    assert main(["train", "--recipe", "one/recipe.yaml", "--out", "three", "--seed", "5"]) == 0
    numbers = [json.loads((tmp_path / run / "certificate.json").read_text()) for run in ("one", "two", "three")]
    assert numbers[0] == numbers[1] != numbers[2]
    assert (tmp_path / "one" / "recipe.yaml").read_text() == (tmp_path / "two" / "recipe.yaml").read_text()


def test_an_unknown_key_is_one_line(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(RECIPE + "num_env: 3\n")
    assert main(["train", "--recipe", "first.yaml", "--out", "x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: first.yaml has the key 'num_env', which no recipe has. Did you mean 'num_envs'?")
    assert error.count("\n") == 1


def test_a_run_takes_the_weights_of_another_and_keeps_where_they_are(recipe: Path, tmp_path: Path) -> None:
    import yaml

    assert main(["train", "--recipe", "first.yaml", "--out", "walls"]) == 0
    command = ["train", SPEED, "--recipe", "first.yaml", "--out"]
    assert main([*command, "warm", "--warmstart", "walls"]) == 0
    assert main([*command, "cold"]) == 0
    written = yaml.safe_load((tmp_path / "warm" / "recipe.yaml").read_text())
    assert written["warmstart"] == str(tmp_path / "walls") and written["task"] == SPEED
    numbers = [json.loads((tmp_path / run / "certificate.json").read_text()) for run in ("warm", "cold")]
    assert numbers[0] != numbers[1]


def test_a_task_of_ones_own_is_trained_and_certified(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sekai.safety.tasks import deregister_task

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_task.py").write_text(OWN_TASK)
    try:
        assert main(["-m", "slow_task", "train", "mine/Slow", "--recipe", "first.yaml", "--out", "run"]) == 0
        assert main(["-m", "slow_task", "certify", "run", "--rollouts", "100"]) == 0
        assert "run iou=0." in capsys.readouterr().out
    finally:
        deregister_task("mine/Slow-v0")
        del sys.modules["slow_task"]
    assert json.loads((tmp_path / "run" / "certificate.json").read_text())["rollouts"] == 100
