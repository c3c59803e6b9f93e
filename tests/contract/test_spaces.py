"""Every kind of space on every backend: same containers, same dtypes, same values (U42, U56)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.spaces import batch_space
from tests.contract.envs import MODES, OBJECTS, build_from, factory

SPACES: dict[str, Any] = {
    "box": sekai.Box(-1.0, 1.0, (2,), np.float32),
    "scalar box": sekai.Box(-1.0, 1.0, (), np.float64),
    "image": sekai.Box(0, 255, (2, 3, 1), np.uint8),
    "discrete": sekai.Discrete(5),
    "discrete from -2": sekai.Discrete(5, start=-2),
    "multi discrete": sekai.MultiDiscrete([3, 4]),
    "multi binary": sekai.MultiBinary(3),
    "masked box": sekai.MaskedBox(-1.0, 1.0, (2,), 3),
    "nested": sekai.Dict(
        {
            "b": sekai.Tuple((sekai.Box(-1.0, 1.0, (2,)), sekai.Discrete(3))),
            "a": sekai.Dict({"c": sekai.MultiBinary(2)}),
        }
    ),
    "sequence": sekai.Sequence(sekai.Box(-1.0, 1.0, (2,))),
    "text in a dict": sekai.Dict({"note": gymnasium.spaces.Text(5), "x": sekai.Box(-1.0, 1.0, (2,))}),
}


class Mirror(sekai.Env):
    """Observation = the action it got; a fixed sample after a reset. Episodes have two steps."""

    def __init__(self, space: Any, slot: int) -> None:
        self.observation_space = self.action_space = space
        self.slot = slot

    def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
        self._set_rng(seed)
        self.t = 0
        self.observation_space.seed(100 + self.slot)
        return sekai.ResetResult(self.observation_space.sample(), {})

    def step(self, action: Any) -> sekai.StepResult:
        self.t += 1
        assert self.action_space.contains(action), f"{action!r} is no member of {self.action_space}"
        return sekai.StepResult(action, float(self.slot), self.t == 2, False, {})


def flat(value: Any) -> Any:
    """Containers and dtypes made visible, arrays as lists: equal exactly when structure, dtypes and values are."""
    if isinstance(value, dict):
        return {key: flat(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, [flat(part) for part in value])
    if isinstance(value, (np.ndarray, np.generic)):
        return (str(value.dtype), value.shape, value.tolist())
    return (type(value).__name__, value)


def samples(space: Any, n: int) -> list[Any]:
    """`n` actions, the same ones each time."""
    space.seed(5)
    return [space.sample() for _ in range(n)]


def run(backend: str, mode: str, space: Any, as_batch: bool) -> list[Any]:
    """Everything that a run of four steps returns."""
    actions: Any = samples(space, 3)
    if as_batch:
        actions = sekai.spaces.concatenate(space, actions, what="action")
    seen = []
    with build_from([factory(Mirror, space, slot) for slot in range(3)], backend, mode) as vec:
        first = vec.reset(seed=0)
        seen.append(flat(first.observations))
        assert vec.batch_observation_space.contains(first.observations)
        for _ in range(4):
            result = vec.step(actions)
            assert vec.batch_observation_space.contains(result.observations)
            seen.append((flat(result.observations), result.kind.tolist()))
            if result.ended[0]:
                seen.append([flat(result.final_observation(slot)) for slot in range(3)])
                assert all(space.contains(result.final_observation(slot)) for slot in range(3))
    return seen


@pytest.mark.parametrize("name", SPACES)
def test_every_backend_returns_the_same_for_every_space(name: str) -> None:
    # U42; and the batch as one array (dict, tuple) means the same as a list of actions
    space = SPACES[name]
    for mode in MODES:
        expected = run("sync", mode, space, as_batch=False)
        assert run("sync", mode, space, as_batch=True) == expected
        assert run("async", mode, space, as_batch=True) == expected
        assert run("grouped", mode, space, as_batch=mode == "same_step") == expected
    # the first step mirrors the actions, slot by slot
    assert expected[1][0] == flat(sekai.spaces.concatenate(space, samples(space, 3)))


def test_flat_tells_dtypes_and_containers_apart() -> None:
    distinct = [np.zeros(2), np.zeros(2, np.float32), (0.0, 0.0), [0.0, 0.0], np.zeros((2, 1)), {"a": np.zeros(2)}]
    assert len({repr(flat(value)) for value in distinct}) == len(distinct)


@pytest.mark.parametrize("name", ["image", "nested", "masked box"])
def test_proc_with_a_worker_for_each_slot_joins_the_same_batches(name: str) -> None:
    assert run("proc", "same_step", SPACES[name], True) == run("sync", "same_step", SPACES[name], True)


def test_parts_of_a_batch_of_nested_spaces_are_sampled_independently() -> None:
    # U56: leaves that happen to share a seed draw independently. 400 slots, correlation below 4 / sqrt(400) = 0.2
    leaf = sekai.Box(-1.0, 1.0, (), np.float64)
    space = sekai.Dict({"a": leaf, "b": sekai.Tuple((sekai.Box(-1.0, 1.0, (), np.float64), sekai.Discrete(50)))})
    for part in (space["a"], *space["b"]):
        part.seed(0)
    batch = batch_space(space, 400)
    drawn = batch.sample()
    columns = [drawn["a"], drawn["b"][0], drawn["b"][1].astype(float)]
    correlation = np.corrcoef(columns)
    assert (np.abs(correlation[np.triu_indices(3, 1)]) < 0.2).all()
    assert abs(np.corrcoef(columns[0], columns[0])[0, 1]) > 0.99, "the measure sees dependence"
    again = batch_space(space, 400).sample()
    assert np.array_equal(drawn["a"], again["a"]), "and the batch honours the single space's seed"


@pytest.mark.parametrize("backend", [*OBJECTS])
def test_a_mismatch_of_spaces_names_the_sub_env_and_the_difference(backend: str) -> None:
    fns = [factory(Mirror, sekai.Box(-1.0, 1.0, (2,)), 0), factory(Mirror, sekai.Box(-1.0, 1.0, (3,)), 1)]
    with pytest.raises((sekai.SpaceMismatch, sekai.VecEnvWorkerError)) as caught:
        build_from([*fns], backend)
    assert "The observation space of sub-env 1 differs from that of sub-env 0: shape (2,) and (3,)" in str(caught.value)
