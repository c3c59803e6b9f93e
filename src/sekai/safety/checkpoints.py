"""A training run as one file, from which it goes on bit for bit (on the CPU).

What is kept: the model (networks, optimisers, counters, the observations of the next decision), the replay buffer of an
off-policy learner, the state of the environment, and the global random generators that Stable-Baselines3 draws from.

    model.zip         the learner, as its own `save` writes it and its `load` reads it, and in the same archive
      state.npz       generators and environment, plain arrays
      replay.pt       tensors of the replay buffer, where there is one

One file, since it takes the place of an older one in one step: whenever a run is killed, all of a checkpoint is there.
"""

from __future__ import annotations

import io
import os
import random
import zipfile
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
    fresh = folder / f"new-{MODEL}"
    learner.save(fresh)
    arrays = {f"env.{key}": value for key, value in learner.env.get_state().items()}
    buffer = getattr(learner, "replay_buffer", None)
    with zipfile.ZipFile(fresh, "a") as archive:
        with archive.open(STATE, "w", force_zip64=True) as entry:
            np.savez(entry, **arrays, **_generators())
        if buffer is not None:
            with archive.open(REPLAY, "w", force_zip64=True) as entry:
                torch.save(buffer.state_dict(), entry)
    os.replace(fresh, folder / MODEL)


def load_checkpoint(cls: type[SafetyLearner], folder: Path, env: Any) -> SafetyLearner:
    """The learner as it was saved, with `env` where it was.

    Args:
        cls: class of the learner.
        folder: where the checkpoint is.
        env: built as the one that was saved.

    Raises:
        FileNotFoundError: there is none.
        ValueError: of another learner, or another environment, or a model that was saved alone or cut off.
    """
    path = folder / MODEL
    require_whole(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if STATE not in names:
            raise ValueError(f"{path} is a model without the state of its run ({STATE}); `sekai train` writes both.")
        learner: SafetyLearner = cls.load(path, env=env, device="cpu", force_reset=False)
        with np.load(io.BytesIO(archive.read(STATE)), allow_pickle=False) as arrays:
            env.set_state({key.removeprefix("env."): arrays[key] for key in arrays.files if key.startswith("env.")})
            if REPLAY in names:
                replay = torch.load(io.BytesIO(archive.read(REPLAY)), weights_only=True)
                learner.replay_buffer.load_state_dict(replay)
            _restore_generators(arrays)
    return learner


def require_whole(path: Path) -> None:
    """Refuse a file that is no whole model.

    Raises:
        ValueError: it is not.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # an archive inside could end where this one is cut off, and pass for it: look for an entry of SB3's
            whole = "data" in archive.namelist()
    except zipfile.BadZipFile:
        whole = False
    if not whole:
        raise ValueError(
            f"{path} is no model, or was cut off: it has {path.stat().st_size:,} bytes. Copy it anew, or train in "
            "another folder."
        )


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
