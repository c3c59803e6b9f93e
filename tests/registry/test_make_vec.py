"""`make_vec`: backends, arguments and where they belong, samplers, wrappers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import sekai
from sekai.vector import VecEnv
from tests.arch.source import SRC
from tests.registry.samples import Copied, Open, Plus, Shared, Tally, TallyVecEnv

BACKENDS = ["native", "sync", "async", "proc"]
ID = "t/Tally-v0"


@pytest.fixture(autouse=True)
def tally() -> None:
    sekai.register(ID, Tally, vector_entry_point=TallyVecEnv, max_episode_steps=4, kwargs={"scale": 2.0})


def build(mode: str | None, num_envs: int = 2, **kwargs: Any) -> VecEnv:
    if mode == "proc":
        kwargs["vector_kwargs"] = {"num_workers": 1} | kwargs.get("vector_kwargs", {})
    return sekai.make_vec(ID, num_envs, vectorization_mode=mode, **kwargs)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (None, TallyVecEnv),
        ("native", TallyVecEnv),
        ("vector_entry_point", TallyVecEnv),
        ("sync", sekai.SyncVecEnv),
        ("async", sekai.AsyncVecEnv),
        ("proc", sekai.ProcVecEnv),
        (gymnasium.VectorizeMode.SYNC, sekai.SyncVecEnv),
    ],
)
def test_the_mode_picks_the_backend(mode: Any, kind: type[VecEnv]) -> None:
    with build(mode, 3) as vec:
        assert type(vec) is kind and len(vec) == 3
        assert vec.spec is sekai.spec(ID)


def test_without_a_native_environment_the_default_is_sync() -> None:
    sekai.register("t/Single-v0", Tally)
    for id in ("t/Single-v0", "CartPole-v1", "FrozenLake-v1"):
        with sekai.make_vec(id, 2) as vec:
            assert type(vec) is sekai.SyncVecEnv and vec.spec.id == id
    with pytest.raises(ValueError, match=r"CartPole-v1 has no native vector environment"):
        sekai.make_vec("CartPole-v1", 2, vectorization_mode="native")


def test_wrappers_turn_the_default_to_sync_and_native_refuses_them() -> None:
    wrap = [lambda env: Plus(env)]
    assert type(build(None, wrappers=wrap)) is sekai.SyncVecEnv
    assert type(build(None, wrappers=[])) is TallyVecEnv  # no wrapper applies
    with pytest.raises(ValueError, match=r"t/Tally-v0 has wrappers=.*use a vector wrapper around it"):
        build("native", wrappers=wrap)


def test_registered_wrappers_turn_the_default_to_sync_and_native_refuses_them() -> None:
    sekai.register("t/Plus-v0", Tally, vector_entry_point=TallyVecEnv, additional_wrappers=[Plus])
    vec = sekai.make_vec("t/Plus-v0", 2)
    assert type(vec) is sekai.SyncVecEnv and vec.reset(seed=0).observations.ravel().tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="additional_wrappers in its registry entry"):
        sekai.make_vec("t/Plus-v0", 2, vectorization_mode="vector_entry_point")


@pytest.mark.parametrize("mode", ["dask", "", 3, True])
def test_an_unknown_mode_names_the_legal_ones(mode: Any) -> None:
    with pytest.raises(
        ValueError, match="expected None, 'native', 'vector_entry_point', 'sync', 'async', 'proc', 'ray'"
    ):
        build(mode)


@pytest.mark.parametrize("num_envs", [0, -1, 2.0, True, "2"])
def test_a_number_of_environments_below_one_or_of_another_type_is_refused(num_envs: Any) -> None:
    for mode in ("native", "sync"):
        error = ValueError if num_envs in (0, -1) else TypeError
        with pytest.raises(error, match=r"num_envs is .*; expected an int of at least 1"):
            build(mode, num_envs)


# U64: arguments given when making are neither ignored nor passed twice
@pytest.mark.parametrize("mode", BACKENDS)
def test_arguments_reach_every_backend_over_the_registered_ones(mode: str) -> None:
    with build(mode, labels=["a"], max_episode_steps=3) as vec:
        vec.reset(seed=0)
        assert vec.get_attr("scale") == [2.0, 2.0]
        assert vec.get_attr("labels") == [["a"], ["a"]]
        steps = [vec.step([0, 0]) for _ in range(3)]
        assert steps[1].observations.ravel().tolist() == [4.0, 4.0]  # scale 2 after 2 steps
        assert [step.truncated.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2]
    with build(mode, scale=5.0) as vec:
        assert vec.get_attr("scale") == [5.0, 5.0] and vec.get_attr("max_episode_steps") == [4, 4]


@pytest.mark.parametrize("mode", BACKENDS)
@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"scal": 1.0}, TypeError, "takes no argument 'scal'. Did you mean 'scale'?"),
        ({"autoreset": False}, TypeError, "It belongs in vector_kwargs"),
        ({"autoreset_options": print}, TypeError, "It belongs in vector_kwargs"),
        ({"num_workers": 2}, TypeError, "vector_kwargs={'num_workers': ...}) with vectorization_mode='proc' or 'ray'"),
        ({"max_episode_steps": 2.7}, TypeError, "max_episode_steps is 2.7"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps is 0"),
        ({"vector_kwargs": {"scale": 1.0}}, TypeError, "make_vec('t/Tally-v0', ..., scale=...)"),
        ({"vector_kwargs": {"wrappers": []}}, TypeError, "an argument of make_vec itself"),
        ({"vector_kwargs": {"max_episode_steps": 3}}, TypeError, "an argument of make_vec itself"),
        ({"vector_kwargs": {"autorest": True}}, TypeError, "takes no argument 'autorest' (in vector_kwargs)"),
        ({"vector_kwargs": {"autoreset": 7}}, ValueError, "autoreset is 7"),
        ({"vector_kwargs": [1]}, TypeError, "vector_kwargs is [1]; expected a dict"),
        ({"wrappers": Plus}, TypeError, "wrappers is <class"),
    ],
)
def test_a_wrong_argument_is_refused_on_every_backend(
    mode: str, kwargs: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        sekai.make_vec(ID, 2, vectorization_mode=mode, **kwargs)
    assert text in str(caught.value)


@pytest.mark.parametrize("mode", ["native", "sync", "async"])
def test_an_argument_of_another_backend_says_which(mode: str) -> None:
    with pytest.raises(TypeError, match=r"'num_workers' \(in vector_kwargs\). It is one of .*'proc' or 'ray'"):
        build(mode, vector_kwargs={"num_workers": 1})


@pytest.mark.parametrize("mode", BACKENDS)
def test_vector_arguments_reach_every_backend(mode: str) -> None:
    with build(mode, vector_kwargs={"autoreset": "next_step"}) as vec:
        assert vec.autoreset is sekai.AutoresetMode.NEXT_STEP


def test_an_argument_of_the_native_class_alone_may_stand_in_either_place_but_not_in_both() -> None:
    assert build("native", vector_kwargs={"threads": 3}).get_attr("threads") == [3, 3]
    assert build("native", threads=3).get_attr("threads") == [3, 3]
    with pytest.raises(TypeError, match="vector_kwargs has 'threads'"):
        build("native", threads=3, vector_kwargs={"threads": 4})
    with pytest.raises(TypeError, match="'threads'"):
        build("sync", threads=3)


def test_an_argument_that_only_the_single_environment_takes_says_so() -> None:
    def narrow(num_envs: int, max_episode_steps: int | None = None) -> TallyVecEnv:
        return TallyVecEnv(num_envs)

    sekai.register("t/Narrow-v0", Tally, vector_entry_point=narrow)
    with pytest.raises(TypeError, match=r"The single environment does: use vectorization_mode='sync'"):
        sekai.make_vec("t/Narrow-v0", 2, scale=3.0)


def test_a_native_constructor_that_cannot_apply_the_limit_is_refused() -> None:
    sekai.register("t/Timeless-v0", Tally, vector_entry_point=lambda num_envs: TallyVecEnv(num_envs))
    with sekai.make_vec("t/Timeless-v0", 2) as vec:
        assert isinstance(vec, TallyVecEnv)
    with pytest.raises(TypeError, match="has a time limit of 5 steps"):
        sekai.make_vec("t/Timeless-v0", 2, max_episode_steps=5)


def test_a_native_entry_point_that_returns_something_else_is_refused() -> None:
    sekai.register("t/Wrong-v0", Tally, vector_entry_point=lambda num_envs: [Tally()] * num_envs)
    with pytest.raises(TypeError, match=r"expected a sekai.VecEnv"):
        sekai.make_vec("t/Wrong-v0", 2)


def test_a_constructor_that_takes_anything_gets_anything_but_what_is_not_an_environments() -> None:
    sekai.register("t/Open-v0", Open)
    assert sekai.make_vec("t/Open-v0", 1, context="live").get_attr("anything") == [{"context": "live"}]
    with pytest.raises(TypeError, match="belongs in vector_kwargs"):
        sekai.make_vec("t/Open-v0", 1, autoreset=False)


@pytest.mark.parametrize("mode", ["sync", "async", "proc"])
def test_a_generator_of_wrappers_serves_every_sub_environment(mode: str) -> None:
    def amounts() -> Iterator[Any]:
        for amount in (1.0, 10.0):
            yield lambda env, amount=amount: Plus(env, amount)

    with build(mode, 3, wrappers=amounts()) as vec:
        assert vec.reset(seed=0).observations.ravel().tolist() == [11.0, 11.0, 11.0]


@pytest.mark.parametrize("mode", ["sync", "async", "proc"])
def test_every_sub_environment_gets_its_own_spawn_in_slot_order(mode: str) -> None:
    given = Copied()
    with build(mode, 3, source=given) as vec:
        assert [source.name for source in vec.get_attr("source")] == ["copy 1", "copy 2", "copy 3"]
    assert given.name == "given"


def test_a_registered_spawner_is_spawned_too_and_stays_in_the_entry() -> None:
    given = Copied()
    sekai.register("t/Spawning-v0", Tally, kwargs={"source": given})
    with sekai.make_vec("t/Spawning-v0", 2) as vec:
        assert [source.name for source in vec.get_attr("source")] == ["copy 1", "copy 2"]
    assert sekai.spec("t/Spawning-v0").kwargs["source"] is given


def test_a_native_environment_and_make_get_the_object_itself() -> None:
    given = Copied()
    assert build("native", source=given).get_attr("source")[0] is given
    assert sekai.make(ID, source=given).get_attr("source") is given
    assert given.spawned == 0


def test_what_spawns_itself_is_shared_and_other_objects_with_a_spawn_are_left_alone() -> None:
    class Lookalike:
        def spawn(self) -> None:
            raise AssertionError("must not be called")

    for given in (Shared(), Lookalike()):
        sources = build("sync", source=given).get_attr("source")
        assert all(source is given for source in sources)


@pytest.mark.parametrize("mode", ["sync", "native"])
def test_containers_are_not_shared(mode: str) -> None:
    given = ["a"]
    vec = build(mode, labels=given)
    given.append("b")
    vec.get_attr("labels")[0].append("c")
    assert given == ["a", "b"]
    if mode == "sync":
        assert vec.get_attr("labels") == [["a", "c"], ["a"]]
    sekai.register("t/Labels-v0", Tally, vector_entry_point=TallyVecEnv, kwargs={"labels": ["r"]})
    sekai.make_vec("t/Labels-v0", 2, vectorization_mode=mode).unwrapped.call("labels")[0].append("mine")
    assert sekai.spec("t/Labels-v0").kwargs == {"labels": ["r"]}


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_an_id_registered_in_the_main_script_works_in_worker_processes(tmp_path: Path, context: str) -> None:
    script = tmp_path / "main_script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sekai
            from tests.registry.samples import Plus, Tally

            class Mine(Tally):
                pass

            if __name__ == "__main__":
                sekai.register("main/Mine-v0", Mine, max_episode_steps=3)  # not when a worker imports this file
                vec = sekai.make_vec(
                    "main/Mine-v0", 2, vectorization_mode="proc", scale=4.0, wrappers=[lambda env: Plus(env)],
                    vector_kwargs={{"context": {context!r}, "num_workers": 1}},
                )
                vec.reset(seed=0)
                print(vec.step([0, 0]).observations.ravel().tolist(), vec.layers())
                vec.close()
            """
        )
    )
    path = f"{SRC}:{SRC.parent}"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env={"PYTHONPATH": path}
    )
    assert done.stdout == "[5.0, 5.0] ['ProcVecEnv', 'Plus', 'TimeLimit', 'Mine']\n", done.stderr  # 4 * 1 + 1
