"""A wrapper for one environment that is given a vector environment says what to do instead."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import pytest

import sekai
from sekai.testing import CodedEnv

#: what a wrapper is given besides the environment
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ActionRepeat": (2,),
    "DelayAction": (1,),
    "DelayObservation": (1,),
    "DtypeObservation": ("float32",),
    "FilterObservation": (["a"],),
    "FrameStackObservation": (2,),
    "PadSequenceObservation": (2,),
    "RescaleAction": (-1.0, 1.0),
    "RescaleObservation": (-1.0, 1.0),
    "StickyAction": (0.5,),
    "TimeLimit": (9,),
    "TransformObservation": (lambda observation: observation,),
    "TransformReward": (lambda reward: reward,),
}

SINGLE: dict[str, type[sekai.Wrapper]] = {
    name: value
    for name in sekai.__all__
    if isinstance(value := getattr(sekai, name), type) and issubclass(value, sekai.Wrapper)
}

WITH_VECTOR_VERSION = {
    "ActionMaskObservation", "ClipAction", "ClipReward", "DelayAction", "DelayObservation", "FilterObservation",
    "FlattenObservation", "FrameStackObservation", "NormalizeObservation", "NormalizeReward",
    "RecordEpisodeStatistics", "RescaleAction", "TimeAwareObservation", "TransformObservation", "TransformReward",
}  # fmt: skip


def refusal(name: str, env: Any) -> str:
    instead = f"around a vector environment use Vec{name}, or " if name in WITH_VECTOR_VERSION else ""
    return (
        f"{name} wraps a single environment; given {env!r} ({type(env).__name__}). It wraps each copy: "
        f"make_vec(..., wrappers=[lambda env: {name}(env, ...)]); {instead}give {name} one environment."
    )


def test_all_wrappers_are_meant() -> None:
    assert len(SINGLE) >= 28
    assert {"Wrapper", "AutoReset", "TimeLimit", *ARGUMENTS} <= SINGLE.keys()


@pytest.mark.parametrize("name", SINGLE)
def test_a_vector_environment_is_refused_with_advice(name: str) -> None:
    venv = sekai.SyncVecEnv([CodedEnv, CodedEnv])
    with pytest.raises(TypeError, match=f"^{re.escape(refusal(name, venv))}$"):
        SINGLE[name](venv, *ARGUMENTS.get(name, ()))
    venv.close()


@pytest.mark.parametrize("name", SINGLE)
def test_gymnasiums_vector_environment_is_refused_as_well(name: str) -> None:
    venv = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    with pytest.raises(TypeError, match=f"^{re.escape(refusal(name, venv))}$"):
        SINGLE[name](venv, *ARGUMENTS.get(name, ()))
    venv.close()


@pytest.mark.parametrize("name", SINGLE)
def test_a_vector_version_exists_where_one_is_named_and_is_named_where_one_exists(name: str) -> None:
    version = SINGLE[name].vector_version
    bases = {"Wrapper", "ActionWrapper", "ObservationWrapper", "RewardWrapper"}
    if name not in bases:  # their twins share the name and not the hooks
        assert (version is not None) == (f"Vec{name}" in sekai.__all__)
    if version is not None:
        assert name in WITH_VECTOR_VERSION
        assert version == f"Vec{name}"
        assert issubclass(getattr(sekai, version), sekai.VecWrapper)


def test_something_else_gets_no_advice_on_vector_environments() -> None:
    with pytest.raises(TypeError, match=r"^ClipAction wraps a single environment; given None \(NoneType\)\.$"):
        sekai.ClipAction(None)  # type: ignore[arg-type]  # the mistake under test
