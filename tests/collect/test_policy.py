"""What a policy is asked for, and that its memory is reset where an episode begins and nowhere else."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import sekai
from sekai.collect import Collector, Decision, as_policy
from sekai.testing import CodedVecEnv
from tests.collect.envs import MODES, CodedPolicy, ScriptedVecEnv, act
from tests.collect.test_timelines import column, zeros

torch = pytest.importorskip("torch")


class Leaves(NamedTuple):
    """A state of arrays of two libraries."""

    numpy: Any
    torch: Any


class Nested:
    """Remembers the sum of the steps it saw, in a nesting of arrays of both libraries; starts from `start`."""

    def __init__(self) -> None:
        self.start = 0.0
        self.asked: list[int] = []

    def initial_state(self, num_slots: int) -> Any:
        self.asked.append(num_slots)
        return {"a": [Leaves(np.full((num_slots, 2), self.start), torch.full((num_slots, 1), self.start))], "b": None}

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        (leaves,) = state["a"]
        seen = observations[:, 2:] + 1
        after = Leaves(leaves.numpy + seen, (leaves.torch + torch.as_tensor(seen)).requires_grad_())
        extras = {"numpy": leaves.numpy[:, 1], "torch": leaves.torch[:, 0]}
        return Decision(torch.zeros(len(observations), dtype=torch.int64), {"a": [after], "b": None}, extras)


@pytest.mark.parametrize("mode", MODES)
def test_exactly_the_slots_that_start_an_episode_are_reset(mode: str) -> None:
    policy = Nested()
    vec = ScriptedVecEnv([[(2, "terminated")], [(9, "terminated")], [(3, "truncated")]], autoreset=mode)
    fragment = Collector(vec, policy, fragment_length=7).collect()
    steps = fragment.observations[..., 2]
    expected = steps * (steps + 1) / 2
    for name in ("numpy", "torch"):
        np.testing.assert_array_equal(fragment.extras[name][fragment.valid], expected[fragment.valid])
    assert policy.asked[0] == 3 and sum(policy.asked[1:]) == int(fragment.episode_start[1:].sum()) + int(
        fragment.tail_start.sum()
    )
    leaves = fragment.tail_state["a"][0]
    assert isinstance(leaves, Leaves) and isinstance(leaves.torch, torch.Tensor) and not leaves.torch.requires_grad
    starts = np.argwhere(fragment.episode_start)
    stored = fragment.state_at(starts[:, 0], starts[:, 1])
    assert not stored["a"][0].numpy.any() and not stored["a"][0].torch.any(), "U37: the state of the last episode"
    assert stored["b"] is None


def test_the_state_of_a_fragment_is_that_in_which_the_one_before_ended() -> None:
    collector = Collector(CodedVecEnv(2, 5), CodedPolicy(), fragment_length=3)
    first, second = collector.collect(), collector.collect()
    assert first.tail_state["sum"].tolist() == second.state["sum"].tolist() == [6.0, 6.0]
    assert first.state["sum"].tolist() == [0.0, 0.0]
    second.tail_state["sum"][:] = 99  # a copy
    assert collector.collect().state["sum"].tolist() == [1.0, 1.0]


class Reusing(CodedPolicy):
    """Hands out one array as its state, and writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = np.zeros(2)

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        self.sums[:] = state["sum"] + observations[:, 2] + 1
        return Decision(zeros(observations), {"sum": self.sums})


def test_what_is_kept_of_a_state_is_a_copy() -> None:
    collector = Collector(CodedVecEnv(2, 9), Reusing(), fragment_length=3, state_stride=1)
    first, second = collector.collect(), collector.collect()
    assert first.tail_state["sum"].tolist() == second.state["sum"].tolist() == [6, 6]
    assert second.state_at([0, 1, 2], [0, 0, 0])["sum"].tolist() == [6, 10, 15]


def test_nothing_is_written_to_a_state_that_a_policy_handed_out() -> None:
    handed_out: list[Any] = []

    class Keeping(CodedPolicy):
        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            decision = super().act(observations, state, episode_start)
            handed_out.append((decision.state["sum"], decision.state["sum"].copy()))
            return decision

    Collector(CodedVecEnv(2, [2, 3]), Keeping(), fragment_length=7).collect()
    assert all(now.tolist() == then.tolist() for now, then in handed_out)


def test_after_a_reset_in_between_the_state_that_is_kept_is_the_fresh_one() -> None:
    decisions = iter([False, False, True])

    class Failing(CodedPolicy):
        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            if next(decisions, False):
                raise RuntimeError("not now")
            return super().act(observations, state, episode_start)

    collector = Collector(CodedVecEnv(1, 9), Failing(), fragment_length=4, state_stride=1)
    with pytest.raises(RuntimeError, match="not now"):
        collector.collect()
    collector.reset()
    assert collector.collect().state_at([0, 1, 2, 3], [0, 0, 0, 0])["sum"].tolist() == [0, 1, 0, 1]


def test_the_initial_state_is_asked_for_anew_since_learning_may_change_it() -> None:
    policy = Nested()
    collector = Collector(CodedVecEnv(1, 2), policy, fragment_length=2)
    collector.collect()
    policy.start = 7.0  # the next episode has begun with the old one
    assert column(collector.collect().extras["numpy"]) == [0, 1]
    assert column(collector.collect().extras["numpy"]) == [7, 8]


@pytest.mark.parametrize("mode", MODES)
def test_what_a_policy_acts_on_at_an_episode_start_is_the_observation_of_the_reset(mode: str) -> None:
    # U19, U31, U38
    seen: list[Any] = []

    class Watching(CodedPolicy):
        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            seen.append((observations.copy(), episode_start.copy()))
            return super().act(observations, state, episode_start)

    vec = ScriptedVecEnv([[(2, "truncated")], [(3, "terminated")]], autoreset=mode)
    Collector(vec, Watching(), fragment_length=9).collect()
    starts = [tuple(row) for observations, start in seen for row in observations[start].tolist()]
    assert all(step == 0 for _, _, step in starts) and len(set(starts)) == len(starts) >= 5


def test_final_observations_are_valued_with_the_old_memory_and_only_where_they_count() -> None:
    valued: list[Any] = []

    class Watching(CodedPolicy):
        def value(self, observations: Any, state: Any) -> Any:
            valued.append((observations.tolist(), state["sum"].tolist()))
            return super().value(observations, state)

    vec = ScriptedVecEnv([[(2, "truncated")], [(2, "terminated")], [(2, "both")], [(9, "truncated")]])
    fragment = Collector(vec, Watching(), fragment_length=2, values=True).collect()
    finals = [entry for entry in valued if len(entry[0]) == 1]
    assert finals == [([[0, 0, 2]], [1 + 2])], "not the terminated ones, and not with the fresh memory"
    assert fragment.next_values is not None
    assert fragment.next_values[1].tolist() == [200 + 3 + 0.5, 0, 0, 3e6 + 200 + 3 + 0.5]


def test_a_value_among_the_extras_saves_a_call() -> None:
    calls = 0

    class Giving(CodedPolicy):
        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            decision = super().act(observations, state, episode_start)
            return Decision(decision.actions, decision.state, {"value": super().value(observations, state)})

        def value(self, observations: Any, state: Any) -> Any:
            nonlocal calls
            calls += 1
            return super().value(observations, state)

    collector = Collector(CodedVecEnv(2, 9), Giving(), fragment_length=4, values=True)
    fragment = collector.collect()
    assert calls == 1, "the tail"
    assert fragment.values is not None and column(fragment.values) == [0.5, 101.5, 203.5, 306.5]
    assert fragment.values.tolist() == fragment.extras["value"].tolist()


def test_extras_are_chosen_and_a_missing_one_is_named() -> None:
    def policy(observations: Any) -> Decision:
        return Decision(zeros(observations), extras={"a": observations[:, 0], "b": observations[:, 1]})

    assert list(Collector(CodedVecEnv(2), policy, fragment_length=2).collect().extras) == ["a", "b"]
    assert list(Collector(CodedVecEnv(2), policy, fragment_length=2, extras=["b"]).collect().extras) == ["b"]
    assert Collector(CodedVecEnv(2), policy, fragment_length=2, extras=()).collect().extras == {}
    vec = CodedVecEnv(2)
    with pytest.raises(LookupError, match=r"no extra 'c'; it has \['a', 'b'\]"):
        Collector(vec, policy, fragment_length=2, extras=["c"]).collect()
    assert vec.t.tolist() == [0, 0], "nothing has moved"


def test_actions_are_kept_as_given_and_as_executed() -> None:
    space = sekai.Box(-np.inf, np.inf, (), np.float32)
    vec = CodedVecEnv(2, 9, action_space=space)

    def policy(observations: Any) -> Decision:
        raw = np.array([5.0, 0.5])
        return Decision(raw, env_actions=np.clip(raw, -1, 1).astype(np.float32))

    fragment = Collector(vec, policy, fragment_length=2).collect()
    assert fragment.actions.tolist() == [[5.0, 0.5]] * 2 and fragment.actions.dtype == np.float64
    assert fragment.env_actions.tolist() == [[1.0, 0.5]] * 2 and fragment.env_actions.dtype == np.float32
    assert fragment.rewards[0].tolist() == [11.0, 10.5], "the reward says what was executed"
    plain = Collector(CodedVecEnv(2), zeros, fragment_length=2).collect()
    assert plain.env_actions is plain.actions


class Recurrent:
    """A policy with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def initial_state(self, num_slots: int) -> Any:
        return {"h": np.zeros((1, num_slots, 4))} if self.fault == "layers first" else np.zeros((num_slots, 4))

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        after = {"forgotten": None, "short": state[:1]}.get(self.fault, state)
        extras = {"scalar": 1.0} if self.fault == "scalar" else {}
        return Decision(zeros(observations)[:1] if self.fault == "one action" else zeros(observations), after, extras)

    def value(self, observations: Any, state: Any) -> Any:
        return np.zeros(1) if self.fault == "one value" else np.zeros(len(observations))


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("forgotten", TypeError, "has an initial state, and act returned a Decision without state"),
        ("short", ValueError, "act returned a state of shape (1, 4); expected arrays whose first axis is the 2 slots"),
        ("layers first", ValueError, "initial_state returned a state['h'] of shape (1, 2, 4)"),
        ("scalar", ValueError, "extra 'scalar' has shape (); expected a first axis of the 2 slots"),
        ("one action", ValueError, "actions of shape (1,); expected a first axis of 2 slots"),
        ("one value", ValueError, "value returned shape (1,); expected a first axis of 2 slots"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_moves(fault: str, kind: Any, text: str) -> None:
    vec = CodedVecEnv(2)
    with pytest.raises(kind, match=re.escape(text)):
        Collector(vec, Recurrent(fault), fragment_length=2, values=True).collect()
    assert (vec.t == 0).all() and not vec.lost_rows.any()


def test_a_policy_that_changes_its_mind_about_shapes_is_refused() -> None:
    for second, text in [
        (Decision(np.zeros(2, np.int64), extras={"x": np.zeros((2, 2))}), "The x of a call have shape (2, 2)"),
        (
            Decision(np.zeros(2, np.float64), extras={"x": np.zeros(2)}),
            "The actions of a call have shape (2,) and dtype",
        ),
        (Decision(np.zeros(2, np.int64), extras={"x": np.zeros(2)}, env_actions=np.zeros(2, np.int64)), "all or none"),
    ]:
        decisions = iter([Decision(np.zeros(2, np.int64), extras={"x": np.zeros(2)}), second])
        vec = CodedVecEnv(2)
        with pytest.raises(ValueError, match=re.escape(text)):
            Collector(vec, lambda observations, d=decisions: next(d), fragment_length=2).collect()  # type: ignore[misc]
        assert (vec.t == 1).all() and not vec.lost_rows.any(), "nothing has moved"


class Half:
    """Has a memory, and nobody to reset it."""

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        return Decision(zeros(observations))


class OtherHalf:
    def initial_state(self, num_slots: int) -> Any:
        return np.zeros(num_slots)

    def __call__(self, observations: Any) -> Any:
        return zeros(observations)


@pytest.mark.parametrize(
    ("policy", "text"),
    [(Half(), "has act and no initial_state"), (OtherHalf(), "has initial_state and no act"), (3, "The policy is 3")],
)
def test_half_a_recurrent_policy_is_refused_at_construction(policy: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Collector(CodedVecEnv(1), policy, fragment_length=1)


def test_a_function_has_no_memory() -> None:
    with pytest.raises(TypeError, match="returned a state, and a plain function is never given one"):
        Collector(CodedVecEnv(1), lambda o: Decision(zeros(o), np.zeros(1)), fragment_length=1).collect()
    policy = as_policy(act)
    assert policy.initial_state(3) is None and as_policy(policy) is policy


@pytest.mark.parametrize(
    ("kwargs", "kind", "text"),
    [
        ({"fragment_length": 0}, ValueError, "fragment_length is 0"),
        ({"state_stride": 0}, ValueError, "state_stride is 0"),
        ({"restart": "never"}, ValueError, "restart is 'never'; expected 'each' or 'all'"),
        ({"restart": "all"}, ValueError, "the autoreset mode of .* is 'same_step'"),
        ({"values": True}, TypeError, "has no value"),
        ({"infos": "t"}, TypeError, "given one string"),
    ],
)
def test_arguments_out_of_range_are_refused(kwargs: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        Collector(CodedVecEnv(1), zeros, **{"fragment_length": 1, **kwargs})


def test_a_single_environment_is_no_vector_environment() -> None:
    with pytest.raises(TypeError, match=r"goes in as sekai\.SyncVecEnv\(\[lambda: env\]\)"):
        Collector(sekai.make("CartPole-v1"), zeros, fragment_length=1)


def test_seed_and_options_of_a_reset_are_handed_on() -> None:
    vec = sekai.make_vec("CartPole-v1", 2)
    collector = Collector(vec, lambda o: np.zeros(2, np.int64), fragment_length=2)
    collector.reset(seed=3)
    first = collector.collect()
    collector.reset(seed=3)
    np.testing.assert_array_equal(collector.collect().observations, first.observations)
    coded = Collector(CodedVecEnv(1, 9), zeros, fragment_length=1)
    coded.reset(options={"at": 4})
    assert column(coded.collect().observations) == [[0, 0, 4]]
