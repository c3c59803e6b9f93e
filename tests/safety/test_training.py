"""Runs in folders: what they write, and that one which goes on equals one that was never interrupted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from stable_baselines3.common.logger import Logger  # noqa: E402

from sekai.safety.checkpoints import load_checkpoint, save_checkpoint  # noqa: E402
from sekai.safety.learners import SafetySAC  # noqa: E402
from sekai.safety.training import RunConfig, load_run, make_env, train  # noqa: E402

OPTIONS = {
    "ppo": {"n_steps": 16, "batch_size": 64, "n_epochs": 2},
    "sac": {"learning_starts": 64, "buffer_size": 1000, "policy_kwargs": {"net_arch": [16]}},
}


def config(algorithm: str, seed: int = 0, **options: Any) -> RunConfig:
    return RunConfig(
        task="safety/DoubleIntegrator-v0",
        algorithm=algorithm,
        seed=seed,
        num_envs=8,
        learner_options=json.loads(json.dumps({**OPTIONS[algorithm], **options})),
    )


def weights(learner: Any) -> list[Any]:
    return [value.numpy() for value in learner.policy.state_dict().values()]


def log(folder: Path) -> list[dict[str, float]]:
    """The lines of a log, without what depends on the clock."""
    lines = (folder / "progress.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith("time/")} for line in lines]


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_run_that_goes_on_equals_one_that_was_never_interrupted(
    algorithm: str, normalize: bool, tmp_path: Path
) -> None:
    run = config(algorithm, normalize_observations=normalize)
    whole = train(run, 512, tmp_path / "whole")
    train(run, 256, tmp_path / "parts")
    torch.rand(3), np.random.rand(3)  # other programs may draw in between
    parts = train(run, 512, tmp_path / "parts")
    assert parts.num_timesteps == whole.num_timesteps == 512
    rows = np.array([[0.5, -1.0], [-0.9, 0.1]], np.float32)
    loaded = load_run(tmp_path / "parts")[1]  # as `sekai certify` has it
    np.testing.assert_array_equal(loaded.predict_value(rows), whole.predict_value(rows))
    if normalize:
        assert int(parts.policy.normalizer.statistics[0].count) == 512
    assert all(np.array_equal(a, b) for a, b in zip(weights(whole), weights(parts), strict=True))
    other = train(config(algorithm, seed=1), 512, tmp_path / "other")
    assert not all(np.array_equal(a, b) for a, b in zip(weights(whole), weights(other), strict=True))


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
@pytest.mark.parametrize("gsde", [False, True])
def test_a_run_that_was_killed_goes_on_from_its_checkpoint(
    algorithm: str, gsde: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config(algorithm)
    run.learner_options["use_sde"] = gsde
    whole = train(run, 384, tmp_path / "whole")
    monkeypatch.setattr("sekai.safety.training.CHECKPOINT_SECONDS", -1.0)  # one before each rollout
    told: list[int] = []

    def killed(steps: int) -> None:
        told.append(steps)
        if sum(told) == 304:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, 384, tmp_path / "parts", advance=killed)
    _, learner = load_run(tmp_path / "parts")
    assert 0 < learner.num_timesteps < 304
    parts = train(run, 384, tmp_path / "parts")
    assert all(np.array_equal(a, b) for a, b in zip(weights(whole), weights(parts), strict=True))


class Killed(BaseException):
    """Nothing of the program runs on after it."""


@pytest.mark.parametrize(
    ("algorithm", "options"), [("ppo", {}), ("sac", {"gradient_steps": 1}), ("sac", {"learning_starts": 512})]
)
def test_the_log_of_a_run_that_was_killed_repeats_no_line_and_leaves_none_out(
    algorithm: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config(algorithm, **options)
    train(run, 768, tmp_path / "whole")
    saved: list[int] = []

    def first_two(learner: Any, folder: Path) -> None:
        if len(saved) < 2:
            saved.append(learner.num_timesteps)
            save_checkpoint(learner, folder)

    monkeypatch.setattr("sekai.safety.training.CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr("sekai.safety.training.save_checkpoint", first_two)
    told: list[int] = []

    def killed(steps: int) -> None:
        told.append(steps)
        if sum(told) == 696:
            raise Killed

    with pytest.raises(Killed):
        train(run, 768, tmp_path / "parts", advance=killed)
    assert log(tmp_path / "parts")[-1]["step"] > saved[1]  # it has told more than was kept
    with (tmp_path / "parts" / "progress.jsonl").open("a") as file:
        file.write('{"step": 9')  # killed while it wrote
    monkeypatch.undo()
    train(run, 768, tmp_path / "parts")
    lines, wanted = log(tmp_path / "parts"), log(tmp_path / "whole")
    assert [line["step"] for line in lines] == [line["step"] for line in wanted]
    # numbers of an update stand in the line of the next rollout: those from before the checkpoint are not told again
    assert all({**full, **line} == full for line, full in zip(lines, wanted, strict=True))


def kill(monkeypatch: pytest.MonkeyPatch, event: int) -> None:
    """Raise at the given event; the beginning and the end of each of these calls is one, but of none inside another."""
    left, inside = [event], [False]

    def passes() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def watched(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if inside[0]:  # SB3 would leave its file open
                return function(*args, **kwargs)
            passes()
            inside[0] = True
            result = function(*args, **kwargs)
            inside[0] = False
            passes()
            return result

        return call

    for owner, name in ((SafetySAC, "save"), (np, "savez"), (torch, "save"), (os, "replace")):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))


def state(learner: Any) -> dict[str, Any]:
    """All that a checkpoint has of a run."""
    buffer = learner.replay_buffer
    return {
        "steps": learner.num_timesteps,
        "weights": [value.tobytes() for value in weights(learner)],
        "env": {key: value.tobytes() for key, value in learner.env.get_state().items()},
        "replay": (buffer.pos, buffer.g.numpy().tobytes(), buffer.observations.numpy().tobytes()),
        "generator": torch.get_rng_state().numpy().tobytes(),
    }


def test_whenever_a_checkpoint_is_killed_the_old_one_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config("sac")
    learner = train(run, 128, tmp_path)
    old = state(learner)
    learner.set_logger(Logger(None, []))
    learner.learn(64, reset_num_timesteps=False)
    new = state(learner)
    assert all(old[part] != new[part] for part in old)
    is_new: list[bool] = []
    killed = True
    while killed:
        torch.set_rng_state(torch.from_numpy(np.frombuffer(new["generator"], np.uint8).copy()))
        with monkeypatch.context() as patches:
            kill(patches, len(is_new) + 1)
            try:
                save_checkpoint(learner, tmp_path)
                killed = False
            except Killed:
                pass
        kept = state(load_checkpoint(SafetySAC, tmp_path, make_env(run)))
        assert kept in (old, new)
        is_new.append(kept == new)
    assert is_new == [False] * (len(is_new) - 2) + [True, True]  # killed when it had ended, and not at all
    assert len(is_new) == 9  # two each for four calls, and the one that was not killed
    assert state(load_checkpoint(SafetySAC, tmp_path, make_env(run))) == new
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "recipe.yaml",
        "progress.jsonl",
        "model.zip",
    }


def test_a_model_alone_is_no_run_to_go_on_from(tmp_path: Path) -> None:
    learner = train(config("ppo"), 128, tmp_path)
    learner.save(tmp_path / "model.zip")
    with pytest.raises(ValueError, match=r"is a model without the state of its run \(state\.npz\)"):
        train(config("ppo"), 256, tmp_path)


def test_a_model_that_was_cut_off_is_named(tmp_path: Path) -> None:
    train(config("ppo"), 128, tmp_path)
    whole = (tmp_path / "model.zip").read_bytes()
    (tmp_path / "model.zip").write_bytes(whole[: len(whole) // 2])
    for again in (lambda: load_run(tmp_path), lambda: train(config("ppo"), 256, tmp_path)):
        with pytest.raises(ValueError, match=r"model\.zip is no model, or was cut off: it has [\d,]+ bytes"):
            again()


def test_a_folder_holds_one_run_and_its_log(tmp_path: Path) -> None:
    told: list[int] = []
    train(config("ppo"), 256, tmp_path, advance=told.append)
    assert sum(told) == 256
    assert train(config("ppo"), 256, tmp_path).num_timesteps == 256  # nothing is left to do
    train(config("ppo"), 384, tmp_path)
    steps = [json.loads(line)["step"] for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert steps == [128, 256, 384]
    kept, learner = load_run(tmp_path)
    assert kept == config("ppo") and learner.num_timesteps == 384
    with pytest.raises(ValueError, match="holds another run: seed is 1 and was 0"):
        train(config("ppo", seed=1), 512, tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        load_run(tmp_path / "nowhere")
