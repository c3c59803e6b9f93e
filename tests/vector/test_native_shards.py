"""Native shards: each worker is a native vector environment with a stream of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.seeding import spawn_seeds
from sekai.vector import NativeShards
from tests.contract.envs import BOOM, DIE, MODES, CodedVec, places


def make(num_envs: int, autoreset: str) -> CodedVec:
    return CodedVec((3,) * num_envs, ("terminated",) * num_envs, autoreset=autoreset)


def shards(num_envs: int = 5, **kwargs: Any) -> sekai.ProcVecEnv:
    return sekai.ProcVecEnv(NativeShards(make, num_envs), num_workers=2, **kwargs)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_each_worker_steps_as_the_native_environment_with_its_seed_does(mode: str, shared: bool) -> None:
    one, two = make(3, mode), make(2, mode)
    seeds = spawn_seeds(7, 2)
    rng = np.random.default_rng(0)
    with shards(autoreset=mode, shared_memory=shared) as vec:
        assert vec.num_workers == 2 and vec.layers() == ["ProcVecEnv"]
        first = vec.reset(seed=7)
        parts = [one.reset(seed=seeds[0]), two.reset(seed=seeds[1])]
        assert np.array_equal(first.observations, np.concatenate([part.observations for part in parts]))
        assert list(first.infos) == [*parts[0].infos, *parts[1].infos]
        for _ in range(8):
            actions = rng.integers(0, 5, 5)
            whole, rows = vec.step(actions), (one.step(actions[:3]), two.step(actions[3:]))
            for name in ("observations", "rewards", "terminated", "truncated", "kind", "ended"):
                assert np.array_equal(getattr(whole, name), np.concatenate([getattr(row, name) for row in rows])), name
            assert whole.infos == [*rows[0].infos, *rows[1].infos]


def test_a_reset_of_some_slots_and_attributes() -> None:
    with shards() as vec:
        vec.reset(seed=0)
        vec.step([0] * 5)
        reset = vec.reset(mask=np.array([True, False, False, False, True]), options={"at": 1})
        assert places(reset.observations)[0][1:] == (1, 1) and places(reset.observations)[4][1:] == (1, 1)
        assert [place[1:] for place in places(reset.observations)[1:4]] == [(0, 1)] * 3
        assert vec.get_attr("t") == [1] * 5
        vec.set_attr("length", [4, 5, 6, 7, 8])
        assert vec.get_attr("length") == [4, 5, 6, 7, 8]


def test_seeds_that_native_shards_cannot_take_are_refused_before_anything_moves() -> None:
    with shards() as vec:
        vec.reset(seed=0)
        with pytest.raises(TypeError, match=r"^seed is \[1, 2, 3, 4, 5\]; native shards have one stream each: give an"):
            vec.reset(seed=[1, 2, 3, 4, 5])
        with pytest.raises(ValueError, match=r"^Native shards have one stream each: a seed needs a reset of all sub-"):
            vec.reset(seed=1, mask=np.array([True, False, False, False, False]))
        assert vec.get_attr("episode") == [0] * 5 and not vec.lost_rows.any()


def test_a_failure_names_the_worker_and_a_lost_one_is_replaced() -> None:
    with shards(on_worker_loss="restart") as vec:
        vec.reset(seed=0)
        with pytest.raises(sekai.VecEnvWorkerError, match=r"^Worker 1 \(sub-envs 3-4\) raised ValueError: slot 1 went"):
            vec.step([0, 0, 0, 0, BOOM])
        vec.step([0] * 5)
        lost = vec.step([0, 0, 0, DIE, 0])
        assert lost.kind.tolist()[3:] == [RowKind.LOST] * 2 and places(lost.observations)[3] == (0, 0, 0)
        assert [info.get("worker_lost") for info in lost.infos] == [None, None, None, True, True]


def test_make_vec_builds_native_shards_of_a_registered_environment() -> None:
    how = {"shard": "native", "num_workers": 2}
    actions = np.full((6, 3), 0.2, np.float32)
    runs = []
    for _ in range(2):
        with sekai.make_vec("Portfolio-v0", 6, vectorization_mode="proc", vector_kwargs=how, n_assets=2) as vec:
            assert vec.spec.id == "Portfolio-v0"
            vec.reset(seed=3)
            runs.append([vec.step(actions).rewards for _ in range(3)])
    assert np.array_equal(*runs)
    native = sekai.make_vec("Portfolio-v0", 3, vectorization_mode="native", n_assets=2)
    native.reset(seed=spawn_seeds(3, 2)[0])
    expected = [native.step(actions[:3]).rewards for _ in range(3)]
    assert np.array_equal(np.array(runs[0])[:, :3], np.array(expected))


@pytest.mark.parametrize(
    ("id", "kwargs", "error", "text"),
    [
        ("CartPole-v1", {"vector_kwargs": {"shard": "native"}}, ValueError, "CartPole-v1 has no native vector env"),
        (
            "Trading-v0",
            {"vector_kwargs": {"shard": "native"}, "wrappers": [lambda env: env]},
            ValueError,
            "Trading-v0 has wrappers=, and a native vector environment has no single environments to wrap: use a "
            "vector wrapper around it, or shard='sync'",
        ),
        ("Trading-v0", {"vector_kwargs": {"shard": "thread"}}, ValueError, "shard is 'thread'; expected 'sync'"),
    ],
)
def test_shards_that_cannot_be_had_are_refused(id: str, kwargs: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        sekai.make_vec(id, 2, vectorization_mode="proc", **kwargs)


def test_a_factory_that_builds_no_native_environment_is_refused() -> None:
    with pytest.raises(sekai.VecEnvWorkerError, match=r"TypeError: A native shard is 5 \(int\); expected a"):
        sekai.ProcVecEnv(NativeShards(lambda num_envs, autoreset: 5, 2))
    with pytest.raises(TypeError, match=r"^make is 5; expected a function of \(num_envs, autoreset\)"):
        NativeShards(5, 2)  # type: ignore[arg-type]  # on purpose
