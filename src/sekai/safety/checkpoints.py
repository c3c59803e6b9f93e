"""A training run as files, from which it goes on bit for bit (on the CPU).

What is kept: the model (networks, optimisers, counters, the observations of the next decision), the replay buffer of an
off-policy learner, the state of the environment, and the global random generators that Stable-Baselines3 draws from.

    model.zip    the learner, as its own `save` writes it
    state.npz    generators and environment, plain arrays
    replay.pt    tensors of the replay buffer, where there is one
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sekai.safety.learners.base import SafetyLearner

MODEL, STATE, REPLAY = "model.zip", "state.npz", "replay.pt"


def save_checkpoint(learner: SafetyLearner, folder: Path) -> None:
    """Write a checkpoint; an older one is replaced when the new one is whole.

    Args:
        learner: whose environment has `get_state`.
        folder: is made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fresh = {name: folder / f"new-{name}" for name in (MODEL, STATE, REPLAY)}
    learner.save(fresh[MODEL])
    arrays = {f"env.{key}": value for key, value in learner.env.get_state().items()}
    np.savez(fresh[STATE], **arrays, **_generators())
    buffer = getattr(learner, "replay_buffer", None)
    if buffer is not None:
        torch.save(buffer.state_dict(), fresh[REPLAY])
    for name, path in fresh.items():
        if path.exists():
            os.replace(path, folder / name)


def load_checkpoint(cls: type[SafetyLearner], folder: Path, env: Any) -> SafetyLearner:
    """The learner as it was saved, with `env` where it was.

    Args:
        cls: class of the learner.
        folder: where the checkpoint is.
        env: built as the one that was saved.

    Raises:
        FileNotFoundError: there is none.
        ValueError: of another learner, or another environment.
    """
    learner: SafetyLearner = cls.load(folder / MODEL, env=env, device="cpu", force_reset=False)
    with np.load(folder / STATE, allow_pickle=False) as arrays:
        env.set_state({key.removeprefix("env."): arrays[key] for key in arrays.files if key.startswith("env.")})
        if (folder / REPLAY).exists():
            learner.replay_buffer.load_state_dict(torch.load(folder / REPLAY, weights_only=True))
        _restore_generators(arrays)
    return learner


def _generators() -> dict[str, Any]:
    version, numbers, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy(),
        "random": np.array([version, *numbers], np.int64),
        "random_gauss": np.array([] if gauss is None else [gauss]),
        "numpy": np.array(keys),
        "numpy_rest": np.array([position, has_gauss, cached], np.float64),
    }


def _restore_generators(arrays: Any) -> None:
    torch.set_rng_state(torch.from_numpy(arrays["torch"]))
    version, *numbers = arrays["random"].tolist()
    gauss = arrays["random_gauss"]
    random.setstate((version, tuple(numbers), gauss[0] if len(gauss) else None))
    position, has_gauss, cached = arrays["numpy_rest"].tolist()
    np.random.set_state(("MT19937", arrays["numpy"], int(position), int(has_gauss), cached))
