"""`ReplayBuffer`: draws are transitions that were made, with their true successors, and never reach over a boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.collect import ReplayBuffer, ReplaySample
from sekai.testing.coded import CodedVecEnv
from tests.collect.streams import Row, Rows, Stream, expected

PLACES = sekai.Box(-np.inf, np.inf, (3,), np.float32)
NO = np.zeros(1, bool)


def buffer_of(num_envs: int, length: int, **options: Any) -> ReplayBuffer:
    """A buffer of identity-coded rows, `length` for each slot."""
    return ReplayBuffer(
        PLACES, sekai.Discrete(10), capacity=num_envs * length, num_envs=num_envs, **{"seed": 0, **options}
    )


def add(buffer: ReplayBuffer, row: Row) -> None:
    buffer.add(*row[:6], valid=row.valid, episode_start=row.episode_start)


def draws(sample: ReplaySample) -> list[tuple[Any, ...]]:
    """Each draw as `(place, action, reward, discount, steps, successor, terminated, truncated)`."""
    return [
        (tuple(place), action, reward, discount, steps, tuple(successor), terminated, truncated)
        for place, action, reward, discount, steps, successor, terminated, truncated in zip(
            sample.observations.astype(int).tolist(),
            sample.actions.tolist(),
            sample.rewards.tolist(),
            sample.discounts.tolist(),
            sample.steps.tolist(),
            sample.next_observations.astype(int).tolist(),
            sample.terminated.tolist(),
            sample.truncated.tolist(),
            strict=True,
        )
    ]


def by_place(sample: ReplaySample) -> dict[Any, tuple[Any, ...]]:
    return {draw[0]: draw[1:] for draw in draws(sample)}


def one_slot(buffer: ReplayBuffer, episode: int, t: int, reward: float, *, ends: bool = False) -> None:
    """A step of the only slot."""
    seen, after = np.array([[0, episode, t]], np.float32), np.array([[0, episode, t + 1]], np.float32)
    buffer.add(seen, np.array([t]), np.array([reward]), np.array([ends]), NO, after, valid=~NO)


@settings(max_examples=150)
@given(
    st.integers(1, 4),
    st.integers(1, 7),
    st.integers(0, 25),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_every_draw_is_a_transition_that_was_made_and_every_one_kept_is_drawn(
    num_envs: int, length: int, rows: int, n: int, whole: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    stream = Stream(num_envs, rng, ends=rng.random(), invalid=rng.random() * 0.5)
    buffer = buffer_of(num_envs, length, seed=rng)
    given_rows = [stream.row() for _ in range(rows)]
    if whole and rows:
        cut = int(rng.integers(rows))
        for part in (given_rows[:cut], given_rows[cut:]):
            if part:
                buffer.extend(Rows.of(part))
    else:
        for row in given_rows:
            add(buffer, row)
    right = expected(stream, length, n, 0.5)
    assert len(buffer) == len(right)
    if not right:
        return
    found = by_place(buffer.sample(40 * len(right), gamma=0.5, n_step=n))
    assert found == right  # to the bit: halves are exact


def test_n_steps_stop_at_ends_and_at_the_newest_row_after_the_ring_went_round() -> None:
    # episodes of two steps, the reward counts all steps: 0 to 6; a ring of five has kept 2 to 6
    buffer = buffer_of(1, 5)
    for i in range(7):
        one_slot(buffer, i // 2, i % 2, float(i), ends=i % 2 == 1)
    found = by_place(buffer.sample(200, gamma=0.5, n_step=3))
    assert found == {
        (0, 1, 0): (0, 3.5, 0.25, 2, (0, 1, 2), True, False),  # 2 + 0.5 * 3
        (0, 1, 1): (1, 3.0, 0.5, 1, (0, 1, 2), True, False),
        (0, 2, 0): (0, 6.5, 0.25, 2, (0, 2, 2), True, False),  # 4 + 0.5 * 5
        (0, 2, 1): (1, 5.0, 0.5, 1, (0, 2, 2), True, False),
        (0, 3, 0): (0, 6.0, 0.5, 1, (0, 3, 1), False, False),  # the oldest row lies behind it in memory
    }


def test_a_draw_of_three_steps_by_hand() -> None:
    buffer = buffer_of(1, 8)
    for t, reward in enumerate([1.0, 2.0, 4.0, 8.0]):
        one_slot(buffer, 0, t, reward)
    sample = buffer.sample(100, gamma=0.5, n_step=3)
    # 1 + 0.5 * 2 + 0.25 * 4 = 3, and the value three steps on counts 0.5^3
    assert by_place(sample)[0, 0, 0] == (0, 3.0, 0.125, 3, (0, 0, 3), False, False)
    # 4 + 0.5 * 8 = 8, since only two rows are left, and the value two steps on counts 0.5^2
    assert by_place(sample)[0, 0, 2] == (2, 8.0, 0.25, 2, (0, 0, 4), False, False)
    assert sample.bootstrap.all()


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_a_vector_environment_gives_the_same_draws_in_every_mode(mode: str) -> None:
    vec = CodedVecEnv(3, [2, 3, 4], ending=["terminated", "truncated", "both"], autoreset=mode)
    buffer = ReplayBuffer(vec.observation_space, vec.action_space, capacity=300, num_envs=3, seed=0)
    seen = vec.reset(seed=0).observations
    naive = []
    while len(buffer) < 150:
        actions = np.arange(3) % 10
        result = vec.step(actions)
        after = result.observations.copy()
        naive += [(tuple(a), tuple(b)) for a, b, ok in zip(seen, after, result.valid, strict=True) if ok]
        for slot in np.flatnonzero(result.ended):
            after[slot] = result.final_observation(slot)
        rewards, terminated, truncated = result.rewards, result.terminated, result.truncated
        starts = np.zeros(3, bool)
        buffer.add(seen, actions, rewards, terminated, truncated, after, valid=result.valid, episode_start=starts)
        seen = result.observations
        if mode == "disabled" and result.dones.any():
            seen = vec.reset(mask=result.dones).observations
    sample = buffer.sample(3000, gamma=1.0)
    seen_places, successors = sample.observations, sample.next_observations
    np.testing.assert_array_equal(successors - seen_places, np.broadcast_to([0, 0, 1], successors.shape))
    np.testing.assert_array_equal(sample.rewards, 10 * successors[:, 2] + seen_places[:, 0])
    ends = successors[:, 2] == successors[:, 0] + 2
    np.testing.assert_array_equal(sample.terminated, ends & (successors[:, 0] != 1))
    np.testing.assert_array_equal(sample.truncated, ends & (successors[:, 0] != 0))
    np.testing.assert_array_equal(sample.bootstrap, ~sample.terminated)
    # what the environment returned next is the wrong successor, exactly where the slot was reset in the same call
    wrong = [b[2] == 0 for _, b in naive]
    assert any(wrong) == (mode == "same_step")


BLIND = sekai.Box(0, 1, (1,), np.float32)
NOTHING = np.zeros((1, 1), np.float32)


@pytest.mark.parametrize("boundary", ["terminated", "truncated", "invalid", "start", None])
def test_no_draw_passes_a_boundary_though_nothing_can_be_seen(boundary: str | None) -> None:
    buffer = ReplayBuffer(BLIND, sekai.Discrete(2), capacity=10, num_envs=1, seed=0)
    for t in range(6):
        if boundary == "invalid" and t == 3:
            buffer.add(NOTHING, [0], [1e9], NO, NO, NOTHING, valid=NO)
        flags = [np.array([boundary == name and t == 2]) for name in ("terminated", "truncated")]
        start = np.array([boundary == "start" and t == 3])
        buffer.add(NOTHING, [0], [2.0**t], *flags, NOTHING, valid=~NO, episode_start=start)
    found = set(buffer.sample(200, gamma=1.0, n_step=6).rewards.tolist())
    first, second = {1.0 + 2 + 4, 2.0 + 4, 4.0}, {8.0 + 16 + 32, 16.0 + 32, 32.0}
    # without a boundary the six steps are one episode: 1 + 2 + 4 + 8 + 16 + 32 = 63, and so on
    assert found == (first | second if boundary else {float(64 - 2**t) for t in range(6)})


def test_a_row_left_out_is_noticed_by_its_observation() -> None:
    buffer = buffer_of(1, 8)
    for t in (0, 1, 5, 6):
        one_slot(buffer, 0, t, 1.0)
    found = by_place(buffer.sample(100, gamma=1.0, n_step=9))
    assert {place[2]: draw[3:5] for place, draw in found.items()} == {
        0: (2, (0, 0, 2)),
        1: (1, (0, 0, 2)),
        5: (2, (0, 0, 7)),
        6: (1, (0, 0, 7)),
    }


def test_all_stored_transitions_are_drawn_equally_often() -> None:
    buffer = buffer_of(3, 4)
    stream = Stream(3, np.random.default_rng(1), invalid=0.0)
    for valid in ([True] * 3, [True, False, True], [True, False, False], [True, False, False], [True, False, False]):
        row = stream.row()
        add(buffer, row._replace(valid=np.array(valid)))
    # rings of 4 (one of five is overwritten), 1 and 2: seven transitions, not three slots
    assert len(buffer) == 7
    places = buffer.sample(70_000, gamma=1.0).observations
    _, counts = np.unique(places, axis=0, return_counts=True)
    # binomial with p = 1 / 7: five standard deviations are 463
    assert len(counts) == 7 and (np.abs(counts - 10_000) < 463).all()


def test_dict_and_tuple_observations_and_extras_come_back_as_they_were() -> None:
    space = sekai.Dict(
        camera=sekai.Box(0, 255, (2, 2), np.uint8),
        rest=sekai.Tuple([sekai.Discrete(1000), sekai.Box(-np.inf, np.inf, (), np.float64)]),
    )
    actions = sekai.Dict(a=sekai.MultiBinary(3), b=sekai.Box(-1, 1, (2,), np.float32))
    extras = {"log_prob": np.float32, "state": (np.float64, (2, 2))}
    buffer = ReplayBuffer(space, actions, capacity=40, num_envs=2, extras=extras, seed=0)

    def seen(t: int) -> Any:
        return {
            "camera": np.full((2, 2, 2), t, np.uint8),
            "rest": (np.array([t, 100 + t]), np.array([float(t), np.nan])),
        }

    for t in range(15):
        no = np.zeros(2, bool)
        done = {"a": np.full((2, 3), t % 2, np.int8), "b": np.full((2, 2), t / 16, np.float32)}
        more = {"log_prob": np.array([-t, t], np.float32), "state": np.full((2, 2, 2), float(t))}
        buffer.add(seen(t), done, [1.0 * t] * 2, np.array([t % 4 == 3] * 2), no, seen(t + 1), valid=~no, extras=more)
    sample = buffer.sample(100, gamma=0.9)
    t, slot = sample.rewards.astype(int), (sample.observations["rest"][0] >= 100).astype(int)
    np.testing.assert_array_equal(sample.observations["camera"], np.broadcast_to(t[:, None, None], (100, 2, 2)))
    np.testing.assert_array_equal(sample.observations["rest"][1], np.where(slot, np.nan, t))
    np.testing.assert_array_equal(sample.next_observations["rest"][0], t + 1 + 100 * slot)
    np.testing.assert_array_equal(sample.actions["a"], np.broadcast_to(t[:, None] % 2, (100, 3)))
    np.testing.assert_array_equal(sample.actions["b"], np.broadcast_to(t[:, None] / 16, (100, 2)))
    np.testing.assert_array_equal(sample.extras["log_prob"], np.where(slot, t, -t))
    np.testing.assert_array_equal(sample.extras["state"][:, 1, 1], t)
    assert (sample.observations["camera"].dtype, sample.extras["state"].shape) == (np.uint8, (100, 2, 2))
    assert sample.extras["log_prob"].dtype == np.float32
    # a NaN equals itself: three steps from the first of four, though each observation holds one
    several = buffer.sample(100, gamma=1.0, n_step=3)
    steps = {int(t): int(k) for t, k in zip(several.extras["state"][:, 0, 0], several.steps, strict=True)}
    assert steps == {t: min(3, 4 - t % 4, 15 - t) for t in range(15)}


def test_a_successor_is_stored_twice_only_at_ends() -> None:
    space = sekai.Box(-np.inf, np.inf, (1000,), np.float32)
    buffer = ReplayBuffer(space, sekai.Discrete(2), capacity=4000, num_envs=4, seed=0)
    no, zeros = np.zeros(4, bool), np.zeros((4, 1000), np.float32)
    seen = zeros + 0
    for t in range(5000):
        ends = np.array([t % 50 == 49] * 4)
        buffer.add(seen, [0] * 4, [0.0] * 4, ends, no, zeros + (t + 1), valid=~no)
        seen = zeros + (-t if ends[0] else t + 1)
    # 4,000 observations of 4 kB are 16 MB; of the 80 ends among them the places are given again and again
    assert buffer.nbytes < 1.05 * 4000 * 4000


def test_hundreds_of_successors_on_the_side_stay_what_they_are() -> None:
    stream = Stream(2, np.random.default_rng(0), ends=0.9)
    buffer = buffer_of(2, 300)
    for _ in range(400):
        add(buffer, stream.row())
    right = expected(stream, 300, 1, 0.5)
    found = by_place(buffer.sample(30_000, gamma=0.5))
    assert found == {place: right[place] for place in found} and len(found) > 500


def test_draws_are_copies_and_the_same_seed_gives_the_same() -> None:
    stream = Stream(2, np.random.default_rng(3))
    rows = [stream.row() for _ in range(12)]
    first, second = buffer_of(2, 5, seed=7), buffer_of(2, 5, seed=7)
    for row in rows:
        add(first, row)
        add(second, row)
        for array in row:
            array[...] = 0  # the buffer has its own
    sample = first.sample(50, gamma=0.9, n_step=2)
    kept = draws(sample)
    assert draws(second.sample(50, gamma=0.9, n_step=2)) == kept
    sample.observations[:] = sample.next_observations[:] = -1
    sample.rewards[:] = -1
    assert draws(first.sample(50, gamma=0.9, n_step=2)) == draws(second.sample(50, gamma=0.9, n_step=2)) != kept


def test_a_row_that_does_not_fit_is_refused_and_nothing_is_added() -> None:
    stream = Stream(2, np.random.default_rng(3), invalid=0.0)
    buffer = buffer_of(2, 5)
    row = stream.row()
    for change, error, message in (
        ({"observations": row.observations[:1]}, ValueError, r"^observations has shape \(1, 3\); expected \(2, 3\)"),
        ({"rewards": row.rewards[:, None]}, ValueError, r"^rewards has shape \(2, 1\); expected \(2,\): a row of N"),
        ({"actions": row.actions + 0.5}, TypeError, r"^actions is of dtype float64; expected int64, or what casts"),
        ({"terminated": row.rewards}, TypeError, "^terminated is of dtype float64; expected bool"),
        ({"valid": np.ones(2, int)}, TypeError, "^valid is of dtype int64; expected bool"),
        ({"next_observations": {"a": 1}}, ValueError, r"^next_observations has shape \(\)"),
    ):
        with pytest.raises(error, match=message):
            add(buffer, row._replace(**change))
        name, value = next(iter(change.items()))
        many = {
            "successors" if name == "next_observations" else name: value if isinstance(value, dict) else value[None]
        }
        with pytest.raises(error, match=f"^{name} "):
            buffer.extend(replace(Rows.of([row]), **many))
    assert len(buffer) == 0
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'valid'"):
        buffer.add(*row[:6])  # type: ignore[call-arg]  # what is tested


def test_integers_do_not_wrap() -> None:
    buffer = ReplayBuffer(sekai.Box(0, 255, (1,), np.uint8), sekai.Discrete(2), capacity=1, num_envs=1)
    with pytest.raises(ValueError, match="observations holds 256, which uint8 cannot hold"):
        buffer.add(np.array([[256]], np.uint16), [0], [0.0], NO, NO, np.zeros((1, 1), np.uint8), valid=~NO)


def test_structures_and_extras_that_do_not_fit_are_named() -> None:
    space = sekai.Dict(a=sekai.Box(0, 1, (2,), np.float32), b=sekai.Tuple([sekai.Discrete(3)]))
    buffer = ReplayBuffer(space, sekai.Discrete(2), capacity=2, num_envs=1, extras={"p": np.float32})
    good = {"a": np.zeros((1, 2), np.float32), "b": (np.zeros(1, int),)}

    def put(observations: Any, extras: Any) -> None:
        buffer.add(observations, [0], [0.0], NO, NO, good, valid=~NO, extras=extras)

    extras = {"p": np.zeros(1, np.float32)}
    for bad, message in (
        ({"a": good["a"]}, r"observations is \['a'\]; expected a dict of arrays with the keys \['a', 'b'\]"),
        (good["a"], r"observations is ndarray; expected a dict of arrays"),
        ({**good, "b": good["a"]}, r"observations\['b'\] is ndarray; expected a tuple of 1 batches"),
        ({**good, "b": ()}, r"observations\['b'\] is a tuple of 0; expected a tuple of 1"),
        ({**good, "b": (np.zeros(2, int),)}, r"observations\['b'\]\[0\] has shape \(2,\); expected \(1,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            put(bad, extras)
    with pytest.raises(ValueError, match=r"extras lacks \['p'\]; expected every declared column"):
        put(good, None)
    with pytest.raises(ValueError, match=r"extras has \['q'\], which were not declared; expected \['p'\]"):
        put(good, {**extras, "q": extras["p"]})
    with pytest.raises(ValueError, match=r"extras\['p'\] has shape \(2,\); expected \(1,\)"):
        put(good, {"p": np.zeros(2, np.float32)})
    put(good, extras)
    assert len(buffer) == 1


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"capacity is 10; expected a multiple of num_envs, 4, .* capacity=12\."):
        ReplayBuffer(PLACES, sekai.Discrete(2), capacity=10, num_envs=4)
    with pytest.raises(TypeError, match=r"The space of observations is Text.*; expected Box, .* no fixed size"):
        ReplayBuffer(gymnasium.spaces.Text(5), sekai.Discrete(2), capacity=1, num_envs=1)
    with pytest.raises(TypeError, match=r"extras\['p'\] is 'no dtype'; expected a dtype"):
        buffer_of(1, 1, extras={"p": "no dtype"})
    with pytest.raises(TypeError, match=r"extras\['p'\] is <class 'object'>; expected numbers"):
        buffer_of(1, 1, extras={"p": object})
    with pytest.raises(ValueError, match=r"ReplayBuffer: seed is -1; expected an int >= 0"):
        buffer_of(1, 1, seed=-1)
    buffer = buffer_of(2, 3)
    with pytest.raises(ValueError, match="the buffer is empty; add transitions first"):
        buffer.sample(1, gamma=0.9)
    add(buffer, Stream(2, np.random.default_rng(0), invalid=0.0).row())
    with pytest.raises(ValueError, match=r"batch_size is 0; expected an int of at least 1"):
        buffer.sample(0, gamma=0.9)
    with pytest.raises(ValueError, match=r"ReplayBuffer\.sample: gamma is 2; expected a number in \[0, 1\]"):
        buffer.sample(1, gamma=2)
    with pytest.raises(ValueError, match=r"ReplayBuffer\.sample: n is 0"):
        buffer.sample(1, gamma=0.9, n_step=0)
    assert repr(buffer) == "ReplayBuffer(2 of 6 transitions, 2 slots)"
