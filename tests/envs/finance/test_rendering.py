"""Pictures of the finance environments: frames, what they are made from, and that they change nothing."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs.finance.rendering import Recorder
from sekai.errors import ResetRequired

IDS = ["Trading-v0", "Portfolio-v0", "MarketMaking-v0", "OptimalExecution-v0"]
SHAPE = (540, 720, 3)


def single(id: str, mode: str | None = "rgb_array") -> Any:
    return sekai.make(id, render_mode=mode).unwrapped


def native(id: str, mode: str | None = "rgb_array", num_envs: int = 2, **given: Any) -> Any:
    return sekai.make_vec(id, num_envs, vectorization_mode="native", render_mode=mode, **given)


def rows_of(recorder: Recorder | None, slot: int = 0) -> list[tuple[Any, ...]]:
    assert recorder is not None
    return recorder._rows[slot]


def play(env: Any, steps: int, seed: int = 3) -> list[Any]:
    """Rows of an environment played with actions of its own space."""
    env.action_space.seed(seed)
    rows = [env.reset(seed=seed)]
    rows += [env.step(env.action_space.sample()) for _ in range(steps)]
    return rows


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize("id", IDS)
def test_a_frame_is_an_array_of_pixels_that_changes_as_the_episode_goes_on(id: str) -> None:
    env = single(id)
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert env.metadata["render_fps"] == 10
    env.reset(seed=0)
    first = env.render()
    assert (first.shape, first.dtype) == (SHAPE, np.uint8)
    assert same(first, env.render())
    env.step(env.action_space.sample())
    assert not same(first, env.render())
    assert (first != 255).any()


@pytest.mark.parametrize("id", IDS)
def test_rendering_changes_no_row(id: str) -> None:
    plain, drawn = single(id, None), single(id)
    expected = play(plain, 15)
    drawn.action_space.seed(3)
    found = [drawn.reset(seed=3)]
    for _ in range(15):
        drawn.render()
        found.append(drawn.step(drawn.action_space.sample()))
    assert all(same(tuple(a), tuple(b)) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("id", IDS)
def test_a_native_env_draws_one_frame_for_each_slot_and_changes_no_row(id: str) -> None:
    with native(id, None) as plain, native(id) as drawn:
        assert (plain.render_mode, drawn.render_mode) == (None, "rgb_array")
        batch = np.array if id != "Trading-v0" else np.asarray
        for vec in (plain, drawn):
            vec.batch_action_space.seed(5)
        results = [(vec.reset(seed=1), vec) for vec in (plain, drawn)]
        assert same(results[0][0].observations, results[1][0].observations)
        for _ in range(6):
            a, b = (vec.step(batch(vec.batch_action_space.sample())) for vec in (plain, drawn))
            drawn.render()
            assert same(a.observations, b.observations)
            assert same(a.rewards, b.rewards)
            assert same(a.infos[1], b.infos[1])
        frames = drawn.render()
        assert [(frame.shape, frame.dtype) for frame in frames] == [(SHAPE, np.uint8)] * 2
        assert not same(frames[0], frames[1])
        with pytest.raises(NotImplementedError, match="render_mode='rgb_array'"):
            plain.render()


def test_single_and_native_draw_the_same_picture_of_the_same_episode() -> None:
    prices = np.exp(np.random.default_rng(0).normal(0, 0.01, 400).cumsum())
    env = sekai.make("Trading-v0", prices=prices, render_mode="rgb_array").unwrapped
    env.reset(options={"start": 50})
    with native("Trading-v0", prices=prices) as vec:
        vec.reset(options=[{"start": 90}, {"start": 50}])
        for action in (2, 2, 0, 1, 2):
            env.step(action)
            vec.step(np.array([1, action]))
        frames = vec.render()
        assert same(frames[1], env.render())
        assert not same(frames[0], frames[1])


def test_a_recorder_keeps_the_rows_of_the_infos() -> None:
    env = single("MarketMaking-v0")
    rows = play(env, 4)
    names = ("timestamp", "mid_price", "inventory", "wealth", "bid", "ask", "bid_filled", "ask_filled")
    assert rows_of(env._recorder) == [tuple(row.info[name] for name in names) for row in rows]
    env.reset()
    assert len(rows_of(env._recorder)) == 1


def test_without_a_render_mode_nothing_is_kept() -> None:
    env = single("MarketMaking-v0", None)
    play(env, 2)
    assert env._recorder is None
    with pytest.raises(NotImplementedError, match="does not render"):
        env.render()


@pytest.mark.parametrize("autoreset", [True, False, "next_step"])
def test_each_slot_keeps_its_own_episode_in_every_autoreset_mode(autoreset: Any) -> None:
    given = {"n_steps": 3, "vector_kwargs": {"autoreset": autoreset}}
    with native("OptimalExecution-v0", **given) as vec:
        vec.reset(seed=0)
        lengths = []
        for first in (0.5, 0.5, 0.5, 0.5):  # slot 1 sells everything in its first slice
            vec.step(np.array([[first], [1.0]], np.float32))
            lengths.append([len(rows_of(vec._recorder, slot)) for slot in (0, 1)])
    expected = {
        True: [[2, 1], [3, 1], [1, 1], [2, 1]],  # an episode that ends is followed by the start of the next
        False: [[2, 2], [3, 2], [4, 2], [4, 2]],
        "next_step": [[2, 2], [3, 1], [4, 2], [1, 1]],
    }
    assert lengths == expected[autoreset]


@pytest.mark.parametrize("id", IDS)
def test_render_before_the_first_reset_asks_for_one(id: str) -> None:
    with pytest.raises(ResetRequired, match=r"call reset\(\) before render\(\)"):
        single(id).render()
    with native(id) as vec, pytest.raises(ResetRequired, match=r"call reset\(\) before render\(\)"):
        vec.render()


@pytest.mark.parametrize("id", IDS)
def test_after_set_state_the_picture_starts_at_the_restored_row(id: str) -> None:
    env, other = single(id, None), single(id)
    play(env, 4)
    play(other, 9, seed=8)
    other.set_state(env.get_state())
    level = next(iter(other._picture.levels.values()))
    assert [row[0] for row in rows_of(other._recorder)] == [getattr(env, level)]
    assert other.render().shape == SHAPE
    a = env.step(env.action_space.sample())
    b = other.step(other.action_space.sample())
    assert a.info["timestamp"] == b.info["timestamp"]
    assert len(rows_of(other._recorder)) == 2
    other.set_state(single(id, None).get_state())  # one without an episode
    with pytest.raises(ResetRequired):
        other.render()


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_after_set_state_the_pictures_of_all_slots_start_at_their_rows(id: str, num_envs: int) -> None:
    with native(id, None, num_envs) as vec, native(id, "rgb_array", num_envs) as other:
        vec.reset(seed=0)
        vec.step(vec.batch_action_space.sample())
        other.set_state(vec.get_state())
        name = list(other.template._picture.levels)[1]
        expected = vec.get_attr(other.template._picture.levels[name])
        assert [len(rows_of(other._recorder, slot)) for slot in range(num_envs)] == [1] * num_envs
        assert [rows_of(other._recorder, slot)[0][1] for slot in range(num_envs)] == expected
        other.step(other.batch_action_space.sample())
        assert len(other.render()) == num_envs


@pytest.mark.parametrize("id", IDS)
def test_another_render_mode_is_refused(id: str) -> None:
    for make in (lambda: type(single(id))(render_mode="human"), lambda: type(native(id))(2, render_mode="human")):
        with pytest.raises(ValueError, match=r"render_mode is 'human'; expected 'rgb_array', or None"):
            make()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest, **more)

    env = single("Trading-v0")
    env.reset(seed=0)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"needs the package 'matplotlib'.*pip install 'sekai-rl\[viz\]'"):
        env.render()


def test_matplotlib_is_imported_at_the_first_frame_and_its_global_state_never() -> None:
    code = """
import sys, sekai
env = sekai.make("Trading-v0", render_mode="rgb_array")
env.reset(seed=0)
assert "matplotlib" not in sys.modules
env.render()
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_kind_of_market_is_drawn() -> None:
    prices = np.exp(np.random.default_rng(0).normal(0, 0.01, (400, 12)).cumsum(axis=0))
    for env in (
        sekai.make("Portfolio-v0", allow_short=True, render_mode="rgb_array"),
        sekai.make("Portfolio-v0", prices=prices, render_mode="rgb_array"),  # more assets than colours
        sekai.make("Trading-v0", execution="next_close", render_mode="rgb_array"),
        # selling faster would only cost less: there is no schedule to compare with
        sekai.make("OptimalExecution-v0", temporary_impact=1e-9, render_mode="rgb_array"),
    ):
        play(env, 5)
        assert env.render().shape == SHAPE
