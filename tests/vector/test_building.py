"""Building the sub-environments, refusing what cannot be one, and closing them again."""

from __future__ import annotations

from typing import Any

import pytest

import sekai
from tests.contract.envs import Coded, build_from, factory

CLASSES = [sekai.SyncVecEnv, sekai.AsyncVecEnv, sekai.ProcVecEnv]
HERE = CLASSES[:2]


class Tracked(Coded):
    """Remembers that it was closed; `fails` makes `close` raise."""

    closed: list[int] = []  # noqa: RUF012  # shared on purpose, a test clears it

    def __init__(self, slot: int, fails: bool = False) -> None:
        super().__init__(slot)
        self.fails = fails

    def close(self) -> None:
        Tracked.closed.append(self.slot)
        if self.fails:
            raise OSError(f"slot {self.slot} cannot close")


@pytest.fixture(autouse=True)
def nothing_closed() -> None:
    Tracked.closed.clear()


@pytest.mark.parametrize("cls", CLASSES)
def test_no_factory_is_an_error(cls: Any) -> None:
    for nothing in ([], (), iter([])):
        with pytest.raises(
            ValueError, match=r"^A vector environment needs at least one sub-env; given no factories\.$"
        ):
            cls(nothing)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_entry_that_is_no_factory_is_named(cls: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^env_fns\[1\] is <.*Coded.*>; expected a callable without arguments that builds an env"
    ):
        cls([factory(Coded, 0), Coded(1)])
    with pytest.raises(TypeError, match=r"^env_fns\[0\] is 'CartPole-v1'; expected a callable"):
        cls(["CartPole-v1"])
    with pytest.raises(TypeError, match=r"^env_fns is <class .*Coded'>; expected a list of callables, one per sub-env"):
        cls(Coded)


@pytest.mark.parametrize("cls", HERE)
def test_a_generator_of_factories_is_taken(cls: Any) -> None:
    with cls(factory(Coded, slot) for slot in range(3)) as vec:
        assert len(vec) == 3 and vec.get_attr("slot") == [0, 1, 2]


@pytest.mark.parametrize("cls", HERE)
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_environment_from_two_factories_is_refused(cls: Any, wrapped: bool) -> None:
    env = Tracked(0)
    again = (lambda: sekai.TimeLimit(env, 5)) if wrapped else (lambda: env)
    with pytest.raises(
        ValueError, match=r"^The factory returned the environment of sub-env 0 again; build a new"
    ) as caught:
        cls([lambda: env, factory(Coded, 1), again])
    assert caught.value.__notes__ == ["raised by sub-env 2"] and Tracked.closed == [0]


@pytest.mark.parametrize("returned", [None, 5, "CartPole-v1", Coded])
@pytest.mark.parametrize("cls", HERE)
def test_a_factory_that_returns_no_environment_is_refused(cls: Any, returned: Any) -> None:
    with pytest.raises(TypeError, match=r"^The factory returned .*; expected a single environment\.") as caught:
        cls([factory(Tracked, 0), lambda: returned])
    assert caught.value.__notes__ == ["raised by sub-env 1"] and Tracked.closed == [0]


def test_a_vector_environment_is_no_sub_env() -> None:
    with pytest.raises(
        TypeError, match=r"The factory returned SyncVecEnv\(num_envs=1\) \(SyncVecEnv\); expected a single"
    ):
        sekai.SyncVecEnv([lambda: sekai.SyncVecEnv([factory(Coded, 0)])])


class Narrow(Tracked):
    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.action_space = sekai.Discrete(3)


@pytest.mark.parametrize("cls", HERE)
def test_spaces_that_differ_are_named_and_what_was_built_is_closed(cls: Any) -> None:
    with pytest.raises(
        sekai.SpaceMismatch, match=r"^The action space of sub-env 2 differs from that of sub-env 0: n 10 and 3$"
    ):
        cls([factory(Tracked, 0), factory(Tracked, 1), factory(Narrow, 2)])
    assert Tracked.closed == [0, 1, 2]


@pytest.mark.parametrize("cls", HERE)
def test_the_first_error_of_a_failed_construction_survives_a_failing_close(cls: Any) -> None:
    def boom() -> Any:
        raise RuntimeError("no environment today")

    with pytest.raises(RuntimeError, match="no environment today") as caught:
        cls([factory(Tracked, 0, True), factory(Tracked, 1), boom])
    assert Tracked.closed == [0, 1]
    assert caught.value.__notes__ == [
        "raised by sub-env 2",
        "Closing the sub-envs that had been built also failed: OSError('slot 0 cannot close')",
    ]


@pytest.mark.parametrize("cls", HERE)
def test_a_wrong_argument_closes_what_was_built(cls: Any) -> None:
    with pytest.raises(ValueError, match="autoreset is 'never'; expected True"):
        cls([factory(Tracked, 0), factory(Tracked, 1)], autoreset="never")
    assert Tracked.closed == [0, 1]


@pytest.mark.parametrize("backend", ["sync", "async"])
def test_of_several_failing_closes_the_first_is_raised_after_all_were_tried(backend: str) -> None:
    vec = build_from([factory(Tracked, slot, slot in (1, 2)) for slot in range(4)], backend)
    with pytest.raises(OSError, match="slot 1 cannot close") as caught:
        vec.close()
    assert caught.value.__notes__ == ["raised by sub-env 1", "failed sub-envs: [1, 2]"]
    assert Tracked.closed == [0, 1, 2, 3] and vec.closed
    vec.close()
    assert Tracked.closed == [0, 1, 2, 3], "closing again does nothing"


def test_leaving_the_block_closes_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), sekai.SyncVecEnv([factory(Tracked, 0)]):
        1 / 0  # noqa: B018  # the error is the point
    assert Tracked.closed == [0]


def test_a_worker_names_slots_by_their_place_in_the_whole() -> None:
    def boom() -> Any:
        raise RuntimeError("no environment today")

    with pytest.raises(
        sekai.VecEnvWorkerError, match=r"^Sub-env 3 raised RuntimeError: no environment today"
    ) as caught:
        sekai.ProcVecEnv([factory(Coded, 0), factory(Coded, 1), factory(Coded, 2), boom], num_workers=2)
    assert caught.value.rank == 3 and caught.value.exc_type == "RuntimeError"
    env = Coded(2)
    with pytest.raises(
        sekai.VecEnvWorkerError, match=r"Sub-env 3 raised ValueError: .* environment of sub-env 2 again"
    ):
        sekai.ProcVecEnv([factory(Coded, 0), factory(Coded, 1), lambda: env, lambda: env], num_workers=2)
