"""`sekai train` and `sekai certify`: a short run, what it leaves, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sekai.cli import main

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

RUN = ["train", "safety/DoubleIntegrator-v0", "--num-envs", "8", "--option", "n_steps=16", "--option", "batch_size=64"]


def test_a_run_leaves_its_configuration_log_model_numbers_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main([*RUN, "--steps", "256", "--out", str(folder), "--task-option", "integrator=euler"]) == 0
    names = {path.name for path in folder.iterdir()}
    measured = {"certificate.json", "certificate.png", "certificate.html"}
    assert names == {"config.json", "recipe.yaml", "progress.jsonl", "model.zip", "report.html", *measured}
    config = json.loads((folder / "config.json").read_text())
    assert config["task_options"] == {"integrator": "euler"} and config["learner_options"]["n_steps"] == 16
    numbers = json.loads((folder / "certificate.json").read_text())
    assert 0.0 <= numbers["iou"] <= 1.0 and numbers["rollouts"] == 4000
    out = capsys.readouterr().out
    assert f"iou={numbers['iou']:.4f}" in out and "steps=256" in out

    assert numbers["calibrated"]["risk"] == 0.01 and numbers["assumed"]["opponents"] == []
    assert numbers["errs"][0]["errs"] == "bold"
    assert "SafetyPPO on safety/DoubleIntegrator-v0" in (folder / "report.html").read_text(encoding="utf-8")

    for name in measured:
        (folder / name).unlink()
    assert main(["certify", str(folder), "--rollouts", "500", "--risk", "0.2", "--confidence", "0.8", "--no-html"]) == 0
    again = json.loads((folder / "certificate.json").read_text())
    assert again["rollouts"] == 500 and again["calibrated"]["risk"] == 0.2 and again["assumed"]["confidence"] == 0.8
    # half as many for each set of states
    assert again["assumed"]["rollouts"] == 250
    assert not (folder / "certificate.html").exists()


def test_a_game_is_certified_against_each_opponent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sekai.safety.training import RunConfig, train

    options = {"n_steps": 16, "batch_size": 64}
    config = RunConfig(task="safety/DoubleIntegratorForce-v0", num_envs=8, learner_options=options)
    train(config, 256, tmp_path)
    assert main(["certify", str(tmp_path), "--rollouts", "200", "--risk", "0.05", "--no-html"]) == 0
    numbers = json.loads((tmp_path / "certificate.json").read_text())
    assert set(numbers["opponents"]) == set(numbers["assumed"]["opponents"]) == {"zero", "random", "greedy"}
    assert numbers["assumed"]["greedy_goes_by"] == "the exact value"
    assert numbers["assumed"]["best_response_steps"] == 0
    # a policy of no training breaks its promise: nothing can be certified, and it is said
    assert numbers["calibrated"]["threshold"] is None
    assert "Nothing is certified at a risk of 5 % and a confidence of 95 %: " in capsys.readouterr().out


def test_a_run_of_more_state_numbers_than_a_grid_has_axes_is_certified_without_a_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "safety/DrawdownPortfolio-v0", "--out", str(tmp_path), "--steps", "256", "--num-envs", "8"]
    more = ["shocks=[0.03,0.03,0.03]", "max_weights=[0.3,0.3,0.3]"]
    options = [part for option in more for part in ("--task-option", option)]
    assert main([*run, *options, "--option", "n_steps=16", "--option", "batch_size=64"]) == 0
    assert "threshold=" in (out := capsys.readouterr().out) and "iou=" not in out
    assert main(["certify", str(tmp_path), "--risk", "0.2", "--rollouts", "200", "--steps", "50"]) == 0
    numbers = json.loads((tmp_path / "certificate.json").read_text())
    assert numbers["iou"] is None and numbers["calibration"] is None  # the keys are there
    assert numbers["assumed"]["steps"] == 50 and numbers["calibrated"]["sets"] is None
    page = (tmp_path / "certificate.html").read_text(encoding="utf-8")
    assert "Beside the exact set" not in page and page.count("Share of rollouts that broke the promise") == 1
    assert not (tmp_path / "certificate.png").exists()


def test_a_certificate_says_for_how_long_a_best_response_was_trained(tmp_path: Path) -> None:
    from sekai.safety.training import RunConfig, train

    options = {"n_steps": 16, "batch_size": 64}
    game = "safety/DoubleIntegratorForce-v0"
    train(RunConfig(task=game, players=2, num_envs=16, learner_options=options), 256, tmp_path)
    assert main(["certify", str(tmp_path), "--rollouts", "100", "--risk", "0.1", "--best-response", "1600"]) == 0
    numbers = json.loads((tmp_path / "certificate.json").read_text())
    # "current" is the disturbance that learned together with the controller
    assert set(numbers["opponents"]) == {"zero", "random", "greedy", "current", "best_response"}
    assert numbers["assumed"]["best_response_steps"] == 2048  # whole rollouts: 16 slots, 128 steps
    assert "trained for 2,048 steps to break this policy" in (tmp_path / "certificate.html").read_text()


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("DrawdownFloor", "avoid"),
        ("DrawdownPortfolio", "avoid"),
        ("InventoryLimit", "avoid"),
        ("BudgetExecution", "reach-avoid"),
        ("BudgetExecutionShock", "reach-avoid"),
    ],
)
def test_tasks_of_finance_are_trained_and_certified(task: str, mode: str, tmp_path: Path) -> None:
    command = [RUN[0], f"safety/{task}-v0", *RUN[2:], "--mode", mode, "--steps", "256", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    numbers = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert 0.0 <= numbers["iou"] <= 1.0 and (tmp_path / "run" / "certificate.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "CartPole-v1", "--out", "x"],
            "CartPole-v1 is no safety task: `sekai list --tasks` shows all, and register_task",
        ),
        ([*RUN, "--out", "x", "--option", "n_steps"], "'n_steps' is no NAME=VALUE, such as failure_value=-0.5."),
        (
            [*RUN, "--out", "x", "--option", "n_epoch=2"],
            "takes no option 'n_epoch'. Did you mean 'n_epochs'? It takes: ",
        ),
        ([*RUN, "--out", "x", "--mode", "reach-avoid"], "it has no target margin l."),
        ([*RUN, "--out", "x", "--players", "2"], "has nothing for an adversary to choose: use 1."),
        (
            ["train", "safety/DoubleIntegratorForce-v0", "--out", "x", "--players", "2", "--algo", "a2c"],
            "No learner of ('avoid', 'a2c', 2)",
        ),
        ([*RUN, "--out", "x", "--algo", "dqn"], "knows Discrete actions"),
        ([*RUN, "--out", "x", "--task-option", "end_criterion=timeout"], "end_criterion is 'timeout', with which"),
        ([*RUN, "--out", "x", "--warmstart", "nowhere"], "nowhere holds no run"),
        ([*RUN, "--out", "x", "--option", "seed=1"], "learner_options has 'seed', which the run gives by itself: "),
        (["train", "--out", "x"], "No task is given: name one, or a recipe"),
        (["train", "--out", "x", "--recipe", "nowhere.yaml"], "nowhere.yaml"),
        (["certify", "nowhere"], "nowhere holds no run"),
        (["certify", "nowhere", "--risk", "1"], "risk is 1.0 and confidence 0.95; expected both between 0 and 1."),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
