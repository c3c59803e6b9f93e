"""Runs in folders: what they write, and that one which goes on equals one that was never interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from sekai.safety.training import RunConfig, load_run, train  # noqa: E402

OPTIONS = {
    "ppo": {"n_steps": 16, "batch_size": 64, "n_epochs": 2},
    "sac": {"learning_starts": 64, "buffer_size": 1000, "policy_kwargs": {"net_arch": [16]}},
}


def config(algorithm: str, seed: int = 0) -> RunConfig:
    return RunConfig(
        task="safety/DoubleIntegrator-v0",
        algorithm=algorithm,
        seed=seed,
        num_envs=8,
        learner_options=json.loads(json.dumps(OPTIONS[algorithm])),
    )


def weights(learner: Any) -> list[Any]:
    return [value.numpy() for value in learner.policy.state_dict().values()]


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_run_that_goes_on_equals_one_that_was_never_interrupted(algorithm: str, tmp_path: Path) -> None:
    whole = train(config(algorithm), 512, tmp_path / "whole")
    train(config(algorithm), 256, tmp_path / "parts")
    torch.rand(3), np.random.rand(3)  # other programs may draw in between
    parts = train(config(algorithm), 512, tmp_path / "parts")
    assert parts.num_timesteps == whole.num_timesteps == 512
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
    assert (tmp_path / "parts" / "progress.jsonl").read_text()


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
