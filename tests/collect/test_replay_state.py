"""A replay buffer resumes to the bit, in memory and in files, and takes no state that is not its own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.collect import ReplayBuffer
from tests.collect.streams import Stream
from tests.collect.test_replay import add, buffer_of, by_place, draws


def saved(buffer: ReplayBuffer) -> Any:
    """A state, written and read as users do it."""
    file = io.BytesIO()
    np.savez(file, **buffer.state_dict())
    file.seek(0)
    return np.load(file, allow_pickle=False)


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_a_resumed_buffer_goes_on_to_the_bit(num_envs: int, length: int, before: int, used: int, seed: int) -> None:
    stream = Stream(num_envs, np.random.default_rng(seed))
    first, second = buffer_of(num_envs, length, seed=1), buffer_of(num_envs, length, seed=2)
    for _ in range(before):
        add(first, stream.row())
    if len(first):
        first.sample(3, gamma=0.9)
    other = Stream(num_envs, np.random.default_rng(0))
    for _ in range(used):  # what the other holds is forgotten
        add(second, other.row())
    second.load_state_dict(saved(first))
    assert len(second) == len(first)
    for _ in range(15):
        row = stream.row()
        for buffer in (first, second):
            add(buffer, row)
        if len(first):
            one, two = (buffer.sample(20, gamma=0.9, n_step=3) for buffer in (first, second))
            assert draws(one) == draws(two)
    one, two = first.state_dict(), second.state_dict()
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_a_state_is_a_copy_and_as_large_as_what_is_stored() -> None:
    stream, buffer = Stream(2, np.random.default_rng(0)), buffer_of(2, 1000)
    for _ in range(20):
        add(buffer, stream.row())
    state = buffer.state_dict()
    assert sum(array.nbytes for array in state.values()) < 0.1 * buffer.nbytes
    kept = {name: array.copy() for name, array in state.items()}
    for _ in range(5):
        add(buffer, stream.row())
    buffer.sample(5, gamma=1.0)
    for name, array in kept.items():
        np.testing.assert_array_equal(state[name], array)


def test_columns_in_files_hold_what_columns_in_memory_hold(tmp_path: Path) -> None:
    stream = Stream(3, np.random.default_rng(0), ends=0.9)
    memory, mapped = buffer_of(3, 200), buffer_of(3, 200, directory=tmp_path / "new" / "folder")
    for _ in range(300):
        row = stream.row()
        for buffer in (memory, mapped):
            add(buffer, row)
    assert draws(memory.sample(500, gamma=0.9, n_step=3)) == draws(mapped.sample(500, gamma=0.9, n_step=3))
    files = {path.name: path.stat().st_size for path in (tmp_path / "new" / "folder").iterdir()}
    assert files["observations.0.npy"] >= 600 * 3 * 4
    # the table has grown over several files, of which one is left
    tables = [name for name in files if name.startswith("successors.0.")]
    assert len(tables) == 1 and tables != ["successors.0.0.npy"]
    assert {"rewards.npy", "actions.0.npy", "terminated.npy", "places.npy"} <= files.keys()
    on_disk = np.load(tmp_path / "new" / "folder" / "rewards.npy", mmap_mode="r")
    np.testing.assert_array_equal(on_disk, memory.state_dict()["rewards"])
    resumed = buffer_of(3, 200, directory=tmp_path / "other")
    resumed.load_state_dict(saved(mapped))
    assert draws(memory.sample(50, gamma=0.9)) == draws(resumed.sample(50, gamma=0.9))


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rewards.npy").write_text("mine")
    with pytest.raises(FileExistsError, match=r"is not empty; give a new folder, so that nothing is overwritten"):
        buffer_of(1, 5, directory=tmp_path)
    assert (tmp_path / "rewards.npy").read_text() == "mine"


def test_a_mapped_buffer_is_larger_than_what_it_has_in_memory(tmp_path: Path) -> None:
    space = sekai.Box(0, 255, (1 << 20,), np.uint8)
    buffer = ReplayBuffer(space, sekai.Discrete(2), capacity=64 * 1024, num_envs=1, seed=0, directory=tmp_path)
    assert buffer.nbytes > 60e9
    seen, no = np.zeros((1, 1 << 20), np.uint8), np.zeros(1, bool)
    for t in range(3):
        buffer.add(seen + t, [0], [t], no, no, seen + t + 1, valid=~no)
    assert set(buffer.sample(20, gamma=1.0).next_observations[:, 0].tolist()) == {1, 2, 3}
    on_disk = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert on_disk < 100e6


def changed(name: str, value: Any) -> Any:
    def change(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, name: value(state[name])}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed("num_envs", lambda n: np.array(n + 1)),
            r"state\['num_envs'\] is 3; expected 2: a state fits a buffer made of",
        ),
        (
            changed("count", lambda c: c[:1]),
            r"state\['count'\] is int64 of shape \(1,\); expected int64 of shape \(2,\)",
        ),
        (changed("count", lambda c: c + 99), r"state\['count'\] is .* expected numbers from 0 to 6"),
        (changed("head", lambda h: h - 1), r"state\['head'\] is .* those of 'count' in rings that are not full yet"),
        (changed("rewards", lambda r: r[1:]), r"state\['rewards'\] has shape \(9,\).* expected \(10,\) and float64"),
        (
            changed("open", lambda o: o.astype(int)),
            r"state\['open'\] has shape \(2,\) and dtype int64; expected \(2,\) and",
        ),
        (changed("places", lambda p: p + 1), r"state\['places'\] and state\['free'\] name .* each of the 5 rows"),
        (changed("free", lambda f: np.append(f, 0)), r"state\['places'\] and state\['free'\] name"),
        (changed("continues", lambda c: c | True), "The newest rows of the state have a row after them"),
        (changed("rng.bit_generator", lambda b: np.array("X")), r"state\['rng\.bit_generator'\] is 'X'"),
        (changed("rewards", lambda r: r.tolist()), r"state\['rewards'\] is .*; expected a plain array"),
        (lambda state: {k: v for k, v in state.items() if k != "places"}, r"The state has .*; expected the names"),
        (lambda state: {k: v for k, v in state.items() if not k.startswith("rng.")}, r"The state lacks 'rng\.\*'"),
        (lambda state: {**state, "extras.p": np.zeros(1)}, r"The state has .*'extras\.p'.*; expected the names"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(change: Any, message: str) -> None:
    stream = Stream(2, np.random.default_rng(5), invalid=0.0, ends=0.4)
    buffer = buffer_of(2, 6)
    for _ in range(5):
        add(buffer, stream.row())
    before = buffer.state_dict()
    assert before["successors.0"].shape == (5, 3)
    with pytest.raises((ValueError, TypeError), match=message):
        buffer.load_state_dict(change(before))
    after = buffer.state_dict()
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])
    assert by_place(buffer.sample(200, gamma=1.0))
