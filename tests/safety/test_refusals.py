"""`require_margins`: what changes rewards outside the margins is found wherever it stands, and nothing else is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import sekai
from sekai.compat import from_gymnasium_vector, to_gymnasium_vector, to_sb3
from sekai.safety.contract import declared, require_margins
from sekai.testing import CodedVecEnv
from tests.safety.refusal_samples import Doubled, OwnMargins, Task, margins

sb3 = pytest.importorskip("stable_baselines3.common.vec_env")
atari = pytest.importorskip("stable_baselines3.common.atari_wrappers")
Monitor = pytest.importorskip("stable_baselines3.common.monitor").Monitor


class ScaledMargins(sekai.VecTransformReward):
    """A user's own vector wrapper."""


def scaled(env: Any) -> Any:
    return gymnasium.wrappers.TransformReward(env, lambda g: 2.0 * g)


def vector(cls: Any, make: Callable[[], Any] = margins, n: int = 2, **kwargs: Any) -> Any:
    return cls([make] * n, **kwargs)


@contextmanager
def closing(env: Any) -> Iterator[Any]:
    try:
        yield env
    finally:
        env.close()


def refused(name: str, where: str = "", fix: str = "Leave it out, or put it inside of MarginWrapper") -> str:
    return (
        f"SafetyPPO cannot use this environment: its reward is the safety margin g, and {name}{where} changes it: the "
        f"set g >= 0, or the scale of g, would be another. {fix}; observations may be normalised."
    )


# sekai's own worker processes import no Stable-Baselines3
FAR_SEKAI = {
    "NormalizeReward": lambda: gymnasium.wrappers.NormalizeReward(margins()),
    "Doubled": lambda: Doubled(margins()),
    "ActionRepeat": lambda: sekai.ActionRepeat(margins(), 2),
}
SINGLE: dict[str, Callable[[Any], Any]] = {
    "NormalizeReward": gymnasium.wrappers.NormalizeReward,
    "ClipReward": lambda env: gymnasium.wrappers.ClipReward(env, -1.0, 1.0),
    "TransformReward": scaled,
    "Doubled": Doubled,
    "ClipRewardEnv": atari.ClipRewardEnv,
    "MaxAndSkipEnv": atari.MaxAndSkipEnv,
    "sekai NormalizeReward": sekai.NormalizeReward,
    "sekai ClipReward": lambda env: sekai.ClipReward(env, -1.0, 1.0),
    "sekai TransformReward": lambda env: sekai.TransformReward(env, abs),
    "ActionRepeat": lambda env: sekai.ActionRepeat(env, 2),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_wrapper_that_changes_margins_is_named(name: str) -> None:
    # deep in the chain, below what is harmless
    env = gymnasium.wrappers.RecordEpisodeStatistics(sekai.TimeLimit(SINGLE[name](margins()), 10))
    with pytest.raises(ValueError, match=f"^{re.escape(refused(name.split()[-1]))}$"):
        require_margins(env, "avoid", learner="SafetyPPO")


@pytest.mark.parametrize("name", SINGLE)
def test_inside_of_the_margins_it_is_harmless(name: str) -> None:
    require_margins(margins(SINGLE[name](Task())), "avoid")
    require_margins(OwnMargins(SINGLE[name](Task())), "avoid")
    with pytest.raises(ValueError, match="changes it"):  # the base environment makes the margins
        require_margins(SINGLE[name](Task()), "avoid")


def test_observations_actions_and_episodes_may_be_wrapped() -> None:
    env = sekai.NormalizeObservation(sekai.RescaleAction(margins(), -2.0, 2.0))
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.NormalizeObservation(sekai.TimeLimit(env, 5)))
    require_margins(Monitor(env), "avoid")
    vec = sekai.VecRecordEpisodeStatistics(sekai.VecNormalizeObservation(vector(sekai.SyncVecEnv)))
    require_margins(vec, "avoid")
    require_margins(Task(), "reach-avoid")  # it declares nothing; a missing l is an error of the first step


VECTOR: dict[str, Callable[[Any], Any]] = {
    "VecNormalizeReward": sekai.VecNormalizeReward,
    "VecClipReward": lambda vec: sekai.VecClipReward(vec, -1.0, 1.0),
    "VecTransformReward": lambda vec: sekai.VecTransformReward(vec, abs),
    "ScaledMargins": lambda vec: ScaledMargins(vec, abs),
}


@pytest.mark.parametrize("name", VECTOR)
@pytest.mark.parametrize("around", ["alone", "sb3", "sb3 wrapped", "gymnasium", "gymnasium and back"])
def test_a_vector_wrapper_is_found_through_adapters(name: str, around: str) -> None:
    # a native environment has no sub-environments: its one chain has no index
    inner = CodedVecEnv(2, autoreset="same_step")
    wrap: Any = {
        "alone": lambda vec: vec,
        "sb3": to_sb3,
        "sb3 wrapped": lambda vec: sb3.VecNormalize(sb3.VecCheckNan(to_sb3(vec)), norm_reward=False, norm_obs=False),
        "gymnasium": lambda vec: gymnasium.wrappers.vector.RecordEpisodeStatistics(to_gymnasium_vector(vec)),
        "gymnasium and back": lambda vec: from_gymnasium_vector(to_gymnasium_vector(vec)),
    }[around]
    require_margins(wrap(inner), "avoid")
    with pytest.raises(ValueError, match=f"^{re.escape(refused(name))}$"):
        require_margins(wrap(sekai.VecRecordEpisodeStatistics(VECTOR[name](inner))), "avoid", learner="SafetyPPO")


class DoubledVector(gymnasium.vector.VectorRewardWrapper):
    """A user's own, around gymnasium's vector environments."""

    def rewards(self, rewards: Any) -> Any:
        return 2.0 * rewards


@pytest.mark.parametrize(
    "wrap",
    [
        DoubledVector,
        gymnasium.wrappers.vector.NormalizeReward,
        lambda env: gymnasium.wrappers.vector.ClipReward(env, -1.0, 1.0),
        lambda env: gymnasium.wrappers.vector.TransformReward(env, abs),
    ],
)
def test_vector_wrappers_of_gymnasium_are_found(wrap: Any) -> None:
    inner = vector(SyncVectorEnv)
    require_margins(gymnasium.wrappers.vector.NormalizeObservation(inner), "avoid")
    env = wrap(inner)
    for given in (env, gymnasium.wrappers.vector.NormalizeObservation(env), from_gymnasium_vector(env)):
        with pytest.raises(ValueError, match=re.escape(refused(type(env).__name__, " of sub-env 0"))):
            require_margins(given, "avoid", learner="SafetyPPO")


def test_vec_normalize_is_refused_where_it_normalises_rewards() -> None:
    for inner, where in (
        (vector(sb3.DummyVecEnv), " of sub-env 0"),
        (to_sb3(CodedVecEnv(2, autoreset="same_step")), ""),
    ):
        require_margins(sb3.VecMonitor(sb3.VecNormalize(inner, norm_reward=False, norm_obs=False)), "avoid")
        env = sb3.VecMonitor(sb3.VecNormalize(inner, norm_obs=False))
        with pytest.raises(ValueError, match=f"^{re.escape(refused('VecNormalize', where, 'Use norm_reward=False'))}$"):
            require_margins(env, "avoid", learner="SafetyPPO")


HERE = [sb3.DummyVecEnv, SyncVectorEnv, sekai.SyncVecEnv, sekai.AsyncVecEnv]


@pytest.mark.parametrize("cls", HERE, ids=lambda cls: cls.__name__)
def test_every_sub_environment_is_looked_at(cls: Any) -> None:
    with (
        closing(cls([margins, lambda: sekai.NormalizeReward(margins())])) as env,
        pytest.raises(ValueError, match=re.escape(refused("NormalizeReward", " of sub-env 1"))),
    ):
        require_margins(env, "avoid", learner="SafetyPPO")


def test_every_sub_environment_is_looked_at_through_a_vector_wrapper() -> None:
    vec = sekai.SyncVecEnv([margins, lambda: Doubled(margins())])
    with pytest.raises(ValueError, match=re.escape(refused("Doubled", " of sub-env 1"))):
        require_margins(sekai.VecNormalizeObservation(vec), "avoid", learner="SafetyPPO")


@pytest.mark.parametrize("name", FAR_SEKAI)
def test_layers_in_worker_processes_of_sekai_are_found(name: str) -> None:
    with vector(sekai.ProcVecEnv, FAR_SEKAI[name], autoreset="same_step") as vec:
        adapted = sb3.VecNormalize(to_sb3(vec), norm_reward=False)
        for env in (vec, sekai.VecNormalizeObservation(vec), adapted, to_gymnasium_vector(vec)):
            with pytest.raises(ValueError, match=f"^{re.escape(refused(name))}$"):
                require_margins(env, "avoid", learner="SafetyPPO")


def test_what_is_harmless_in_worker_processes_of_sekai_passes() -> None:
    with vector(sekai.ProcVecEnv, lambda: sekai.NormalizeObservation(margins(Doubled(Task()), l=lambda _: 0.0))) as vec:
        require_margins(vec, "reach-avoid")
        assert vec.layer_bases()[2][:3] == ["MarginWrapper", "Wrapper", "Env"]
        assert [bases[0] for bases in vec.layer_bases()] == vec.layers()


FAR = {
    "known": (lambda: Monitor(gymnasium.wrappers.NormalizeReward(margins())), "NormalizeReward"),
    "own": (lambda: Monitor(Doubled(margins())), "a reward wrapper"),
    "no margin wrapper": (lambda: Doubled(Task()), "a reward wrapper"),
    "over own margins": (lambda: Doubled(OwnMargins(Task())), "a reward wrapper"),
    "inside": (lambda: Monitor(margins(Doubled(Task()))), None),
    "inside own margins": (lambda: OwnMargins(gymnasium.wrappers.NormalizeReward(Task())), None),
    "plain": (Task, None),
}


@pytest.mark.parametrize("case", FAR)
def test_layers_in_worker_processes_of_sb3_are_found(case: str) -> None:
    make, name = FAR[case]
    # forked workers need not import everything again; another test has those that SB3 starts by default
    with closing(sb3.SubprocVecEnv([Task, make], start_method="fork")) as env:
        if name is None:
            require_margins(env, "avoid")
            return
        with pytest.raises(ValueError, match=re.escape(refused(name, " of sub-env 1"))):
            require_margins(env, "avoid", learner="SafetyPPO")


def test_layers_in_worker_processes_of_gymnasium_are_found_by_name() -> None:
    makers = [margins, lambda: gymnasium.wrappers.NormalizeReward(margins())]
    with closing(AsyncVectorEnv(makers)) as env:
        with pytest.raises(ValueError, match=re.escape(refused("NormalizeReward", " of sub-env 1"))):
            require_margins(env, "avoid", learner="SafetyPPO")
        assert declared(env, "provides_l") == [(0, False), (1, False)] and declared(env, "no_such_name") == []
        env.reset()  # its workers are alive
    with closing(vector(AsyncVectorEnv, lambda: margins(gymnasium.wrappers.NormalizeReward(Task())))) as env:
        require_margins(env, "avoid")


def avoid_only(where: str) -> str:
    return (
        f"ReachAvoidPPO is a reach-avoid learner, and {where} declares provides_l = False: it has no target margin l. "
        "Give it one (MarginWrapper: l=...), or use the avoid learner."
    )


def test_a_reach_avoid_learner_is_not_given_an_avoid_environment() -> None:
    require_margins(margins(), "avoid")
    for env, where in (
        (margins(), "the environment"),
        (sekai.TimeLimit(OwnMargins(Task()), 3), "the environment"),
        (vector(sb3.DummyVecEnv), "sub-env 0"),
        (to_sb3(vector(sekai.SyncVecEnv, autoreset="same_step")), "sub-env 0"),
        (sekai.SyncVecEnv([partial(margins, l=lambda _: 0.0), margins]), "sub-env 1"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(avoid_only(where))}$"):
            require_margins(env, "reach-avoid", learner="ReachAvoidPPO")
    require_margins(margins(l=lambda _: 0.0), "reach-avoid")


def test_declarations_cross_processes_and_what_is_missing_ends_no_worker() -> None:
    # SB3's worker is one that it starts by default: it shares nothing, and gets the questions as pickles
    workers = (sekai.ProcVecEnv([partial(margins, dt=0.5)]), sb3.SubprocVecEnv([lambda: Doubled(margins(dt=0.5))]))
    for env, name in zip(workers, (None, "a reward wrapper"), strict=True):
        with closing(env):
            assert declared(env, "dt") == [(0, 0.5)] and declared(env, "g_range") == []
            message = avoid_only("sub-env 0") if name is None else refused(name, " of sub-env 0")
            learner = "ReachAvoidPPO" if name is None else "SafetyPPO"
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                require_margins(env, "reach-avoid", learner=learner)
            env.reset()  # the worker is alive


def test_a_native_environment_declares_for_all() -> None:
    class Avoid(CodedVecEnv):
        provides_l = False

    with pytest.raises(ValueError, match=re.escape(avoid_only("the environment"))):
        require_margins(to_sb3(Avoid(2, autoreset="same_step")), "reach-avoid", learner="ReachAvoidPPO")


def test_an_adapter_that_hands_on_declarations_hides_nothing() -> None:
    class TensorVecEnv:
        """As one around a native environment is."""

        provides_l = True

        def __init__(self, vec: Any) -> None:
            self.vec, self.action_space = vec, vec.action_space

    require_margins(TensorVecEnv(CodedVecEnv(2)), "reach-avoid")
    with pytest.raises(ValueError, match=re.escape(refused("VecNormalizeReward"))):
        require_margins(TensorVecEnv(sekai.VecNormalizeReward(CodedVecEnv(2))), "avoid", learner="SafetyPPO")


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32),
        gymnasium.spaces.Box(-1.0, np.inf, (1,), np.float32),
        gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2), "b": gymnasium.spaces.Box(-np.inf, 1.0, (1,))}),
    ],
)
def test_actions_without_bounds_are_refused(space: Any) -> None:
    class Unbounded(Task):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = space

    message = (
        f"SafetySAC cannot use this environment: its action space is {space}, without finite bounds, and what a policy "
        "may do decides what is safe. Bound it in the environment, or give to_sb3(vec, action_bounds=(low, high))."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        require_margins(Unbounded(), "avoid", learner="SafetySAC")
    for env in (sekai.SyncVecEnv([Unbounded]), SyncVectorEnv([Unbounded]), sb3.DummyVecEnv([Unbounded])):
        with pytest.raises(ValueError, match="without finite bounds"):
            require_margins(env, "avoid")


def test_given_bounds_and_discrete_actions_pass() -> None:
    class Unbounded(Task):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    vec = sekai.SyncVecEnv([Unbounded], autoreset="same_step")
    require_margins(to_sb3(vec, action_bounds=(-1.0, 1.0)), "avoid")
    require_margins(CodedVecEnv(2), "avoid")


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode is 'reach'; expected one of"):
        require_margins(margins(), "reach")


def test_the_contract_needs_neither_torch_nor_sb3() -> None:
    code = (
        "import sys, gymnasium, sekai.safety.contract as c\n"
        "c.check_safety_env(c.MarginWrapper(gymnasium.make('CartPole-v1'), g=lambda s: -1.0), steps=3)\n"
        "print([name for name in ('torch', 'stable_baselines3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
