"""`check_vec_env`: backends and native environments that keep the contract, and each way of not keeping it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import check_vec_env
from sekai.vector import NativeShards
from tests.contract.envs import MODES
from tests.rays import on_ray, start_ray
from tests.testing.test_check import Walk


class WalkVec(sekai.NativeVecEnv):
    """`Walk`, natively; sound."""

    def __init__(self, num_envs: int = 3, **native: Any) -> None:
        single = Walk()
        super().__init__(num_envs, single.observation_space, single.action_space, **native)
        self.x = np.zeros(num_envs)

    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.x[indices] = self.rng.normal(0.0, 0.5, len(indices))

    def _observe(self) -> Any:
        return np.clip(self.x, -5.0, 5.0)[:, None].astype(np.float32)

    def _step(self, actions: Any) -> Any:
        noise = self.rng.normal(0.0, 0.1, self.num_envs)
        self.x = np.where(self.frozen, self.x, self.x + np.where(actions == 1, 0.5, -0.5) + noise)
        return -np.abs(self.x), np.abs(self.x) > 3.0, np.zeros(self.num_envs, bool), {"x": self.x.copy()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "backend",
    [
        "native",
        "sync",
        "async",
        "proc",
        "grouped",
        "pickled",
        "native shards",
        "pickled native shards",
        on_ray("ray"),
        on_ray("ray native shards"),
    ],
)
def test_the_backends_have_no_problems(backend: str, mode: str, request: pytest.FixtureRequest) -> None:
    start_ray(backend, request)
    fns = [lambda: sekai.TimeLimit(Walk(), 30)] * 3
    shards = NativeShards(partial(WalkVec, max_episode_steps=30), 3)
    made = {
        "native": lambda: WalkVec(autoreset=mode, max_episode_steps=30),
        "sync": lambda: sekai.SyncVecEnv(fns, autoreset=mode),
        "async": lambda: sekai.AsyncVecEnv(fns, autoreset=mode),
        "proc": lambda: sekai.ProcVecEnv(fns, autoreset=mode),
        "grouped": lambda: sekai.ProcVecEnv(fns, autoreset=mode, num_workers=2),
        "pickled": lambda: sekai.ProcVecEnv(fns, autoreset=mode, num_workers=2, shared_memory=False),
        "native shards": lambda: sekai.ProcVecEnv(shards, autoreset=mode, num_workers=2),
        "pickled native shards": lambda: sekai.ProcVecEnv(shards, autoreset=mode, num_workers=2, shared_memory=False),
        "ray": lambda: sekai.RayVecEnv(fns, autoreset=mode, num_workers=2),
        "ray native shards": lambda: sekai.RayVecEnv(shards, autoreset=mode, num_workers=2),
    }
    with made[backend]() as vec:
        assert check_vec_env(vec, steps=200) == []


@pytest.mark.parametrize("mode", MODES)
def test_vector_wrappers_have_no_problems(mode: str) -> None:
    inner = WalkVec(autoreset=mode, max_episode_steps=30)
    stacked = sekai.VecFrameStackObservation(sekai.VecTimeAwareObservation(inner), 3)
    with sekai.VecClipReward(sekai.VecRecordEpisodeStatistics(stacked), -1.0, 1.0) as vec:
        assert check_vec_env(vec, steps=200) == []


def test_built_in_native_environments_have_no_problems() -> None:
    with sekai.make_vec("Trading-v0", 4, max_episode_steps=20) as vec:
        assert check_vec_env(vec, steps=100) == []


class Reuses(WalkVec):
    def _observe(self) -> Any:
        if not hasattr(self, "out"):
            self.out = np.zeros((self.num_envs, 1), np.float32)
        self.out[:, 0] = np.clip(self.x, -5.0, 5.0)
        return self.out


class Outside(WalkVec):
    def _observe(self) -> Any:
        return np.full((self.num_envs, 1), 7.0, np.float32)


class Raises(WalkVec):
    def _step(self, actions: Any) -> Any:
        raise RuntimeError("no such thing")


class NotANumber(WalkVec):
    def _step(self, actions: Any) -> Any:
        return np.full(self.num_envs, np.nan), *super()._step(actions)[1:]


class DrawsGlobally(WalkVec):
    def _step(self, actions: Any) -> Any:
        np.random.normal()  # the mistake under test
        return super()._step(actions)


class Unseeded(WalkVec):
    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.x[indices] = np.random.default_rng().normal(0.0, 0.5, len(indices))


class RemembersCalls(WalkVec):
    calls = 0

    def _step(self, actions: Any) -> Any:
        self.calls += 1
        rewards, *rest = super()._step(actions)
        return rewards + self.calls, *rest


class OtherWhenAwaited(sekai.VecTransformReward):
    async def async_step(self, actions: Any) -> Any:
        result = await super().async_step(actions)
        return result.replace(rewards=result.rewards + 1.0)


class RewardsFrozenRows(sekai.VecWrapper):
    def after_step(self, result: Any) -> Any:
        return result.replace(rewards=result.rewards - 1.0)


class LosesFinals(sekai.VecWrapper):
    def after_step(self, result: Any) -> Any:
        for slot in np.flatnonzero(result.ended):
            result.infos[slot].pop("final_info", None)
        return result


class ChangesFrozenRows(sekai.VecWrapper):
    count = 0

    def after_step(self, result: Any) -> Any:
        self.count += 1
        return result.replace(observations=result.observations * np.float32(0.9**self.count))


class DropsTheMask(sekai.VecWrapper):
    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        return super().reset(seed=seed, options=options)


class FloatFlags(sekai.VecWrapper):
    def after_step(self, result: Any) -> Any:
        return result.replace(rewards=result.rewards.astype(np.float32))


class WrongKinds(sekai.VecWrapper):
    def after_step(self, result: Any) -> Any:
        return result.replace(kind=np.zeros(self.num_envs, np.int8))


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        ("results overwritten", Reuses),
        ("observation space", Outside),
        ("raises", Raises),
        ("reward", NotANumber),
        ("global random state", DrawsGlobally),
        ("seeding", Unseeded),
        ("determinism", RemembersCalls),
        ("async", lambda: OtherWhenAwaited(WalkVec(), lambda rewards: rewards)),
        ("rewards", lambda: RewardsFrozenRows(WalkVec(autoreset="disabled"))),
        ("infos", lambda: LosesFinals(WalkVec())),
        ("frozen rows", lambda: ChangesFrozenRows(WalkVec(autoreset="disabled"))),
        ("partial reset", lambda: DropsTheMask(WalkVec(autoreset="disabled"))),
        ("arrays", lambda: FloatFlags(WalkVec())),
        ("kinds", lambda: WrongKinds(WalkVec())),
        ("type", object),
    ],
)
def test_each_mistake_is_named(rule: str, make: Any) -> None:
    found = check_vec_env(make(), steps=100)
    assert rule in [problem.rule for problem in found], list(map(str, found))
    assert found[0].rule == rule or rule in ("determinism", "seeding", "frozen rows"), list(map(str, found))


def test_a_problem_says_what_was_seen_at_which_step_and_how_to_mend_it() -> None:
    assert str(check_vec_env(Reuses(), steps=5)[0]).startswith(
        "error: results overwritten at step 1: step changed what an earlier call had returned. Return new arrays from"
    )


def test_progress_is_reported() -> None:
    seen: list[int] = []
    check_vec_env(WalkVec(), steps=30, progress=seen.append)
    assert seen == [1] * 30


@pytest.mark.parametrize("wrap", [sekai.VecNormalizeObservation, sekai.VecNormalizeReward])
@pytest.mark.parametrize("mode", MODES)
def test_normalisers_have_no_problems(wrap: Any, mode: str) -> None:
    with wrap(WalkVec(autoreset=mode, max_episode_steps=30)) as vec:
        assert check_vec_env(vec, steps=100) == []


class Masked(WalkVec):
    """Number 0 is not allowed below -1, and refused."""

    def action_mask(self) -> Any:
        return np.stack([self.x > -1.0, np.ones(self.num_envs, bool)], axis=1).astype(np.int8)

    def _check_actions(self, actions: Any) -> None:
        if not (self.frozen | self.action_mask()[np.arange(self.num_envs), actions].astype(bool)).all():
            raise sekai.InvalidAction("not allowed")


def test_masks_are_played_by() -> None:
    with Masked() as vec:
        assert check_vec_env(vec, steps=100) == []


def test_a_time_limit_that_passes_for_an_end_is_named() -> None:
    class Limited(WalkVec):
        def _step(self, actions: Any) -> Any:
            rewards, _, truncated, infos = super()._step(actions)
            return rewards, self.elapsed_steps >= 6, truncated, infos

    found = check_vec_env(Limited(), steps=60)
    assert [problem.rule for problem in found] == ["time limit"]


def test_refusals_of_masks_are_looked_at() -> None:
    class Lax(sekai.VecWrapper):
        def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
            return super().reset(seed=seed, options=options, mask=None if isinstance(mask, str) else mask)

    assert [problem.rule for problem in check_vec_env(Lax(WalkVec()), steps=20)] == ["partial reset"]
