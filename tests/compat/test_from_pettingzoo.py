"""`from_pettingzoo`: every row of every agent is what it says, in the three modes, whenever agents end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai import InvalidObservation, RowKind
from sekai.collect import Collector, evaluate
from sekai.compat import from_pettingzoo, to_gymnasium_vector, to_sb3
from sekai.testing import check_vec_env
from tests.collect.envs import CodedPolicy, by_hand
from tests.collect.test_truth import check_marks, check_memory, transitions
from tests.compat.samples import MODES, places

pettingzoo = pytest.importorskip("pettingzoo")

from pettingzoo.utils import BaseParallelWrapper, parallel_to_aec  # noqa: E402  # not installed everywhere

from tests.compat.relay import Relay  # noqa: E402

STEP, TERM, TRUNC, RESET, FROZEN, LOST = (int(kind) for kind in RowKind)


def stepped(vec: sekai.VecEnv, calls: int) -> list[Any]:
    """Results of some calls, with action `slot` in each slot."""
    return [vec.step(np.arange(vec.num_envs)) for _ in range(calls)]


@pytest.mark.filterwarnings("ignore:The old environment creation API")  # which its own test package uses
def test_the_environment_under_test_keeps_to_the_api() -> None:
    from pettingzoo.test import parallel_api_test

    parallel_api_test(Relay(), num_cycles=20)


# ---- the three modes, by hand ------------------------------------------------------------------------


def test_same_step_written_out() -> None:
    env = Relay((2, 3, 3), ("truncated", "terminated", "both"))
    vec = from_pettingzoo(env)
    assert (vec.num_envs, vec.agents) == (3, ["runner_0", "runner_1", "runner_2"])
    first = vec.reset(seed=0)
    assert places(first.observations) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)] and first.infos[1] == {"t": 0}
    one, two, three, four, five = stepped(vec, 5)

    assert one.kind.tolist() == [STEP] * 3 and one.plain
    assert one.rewards.tolist() == [10.0, 11.0, 12.0] and one.infos == [{"t": 1}] * 3

    assert two.kind.tolist() == [TRUNC, STEP, STEP] and two.ended.tolist() == [True, False, False]
    assert two.terminated.tolist() == [False] * 3 and two.truncated.tolist() == [True, False, False]
    assert places(two.observations) == [(0, 0, 2), (1, 0, 2), (2, 0, 2)]
    assert two.infos[0] == {"t": 2} and not two.begun.any(), "it waits for the others"
    assert two.final_observation(0).tolist() == [0, 0, 2] and two.final_info(0) == {"t": 2}

    assert three.kind.tolist() == [RESET, TERM, TERM] and three.ended.tolist() == [False, True, True]
    assert places(three.observations) == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
    assert three.rewards.tolist() == [0.0, 31.0, 32.0]
    assert three.terminated.tolist() == [False, True, True] and three.truncated.tolist() == [False, False, True]
    assert three.begun.tolist() == [False, True, True]
    assert three.infos[0] == {"t": 0}
    assert three.infos[1].keys() == {"t", "final_observation", "final_info", "reset_info"}
    assert three.final_observation(1).tolist() == [1, 0, 3] and three.final_info(1) == {"t": 3}
    assert three.infos[1]["reset_info"] == {"t": 0}
    assert three.infos[1]["final_info"] == {"t": 3}

    assert four.kind.tolist() == [STEP] * 3 and places(four.observations) == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    assert five.kind.tolist() == [TRUNC, STEP, STEP]
    assert [list(asked) for asked in env.asked] == [
        ["runner_0", "runner_1", "runner_2"],
        ["runner_0", "runner_1", "runner_2"],
        ["runner_1", "runner_2"],
        ["runner_0", "runner_1", "runner_2"],
        ["runner_0", "runner_1", "runner_2"],
    ]


def test_next_step_written_out() -> None:
    vec = from_pettingzoo(Relay((1, 3)), autoreset="next_step")
    vec.reset(seed=0)
    results = stepped(vec, 6)
    assert [result.kind.tolist() for result in results] == [
        [TERM, STEP],
        [FROZEN, STEP],
        [FROZEN, TERM],
        [RESET, RESET],
        [TERM, STEP],
        [FROZEN, STEP],
    ]
    assert [places(result.observations) for result in results] == [
        [(0, 0, 1), (1, 0, 1)],
        [(0, 0, 1), (1, 0, 2)],
        [(0, 0, 1), (1, 0, 3)],
        [(0, 1, 0), (1, 1, 0)],
        [(0, 1, 1), (1, 1, 1)],
        [(0, 1, 1), (1, 1, 2)],
    ]
    assert [result.rewards.tolist() for result in results[:4]] == [[10.0, 11.0], [0.0, 21.0], [0.0, 31.0], [0.0, 0.0]]
    assert [result.dones.tolist() for result in results[:4]] == [
        [True, False],
        [True, False],
        [True, True],
        [False, False],
    ]
    assert [result.ended.tolist() for result in results[:3]] == [[True, False], [False, False], [False, True]]
    assert [list(result.infos) for result in results[:4]] == [
        [{"t": 1}, {"t": 1}],
        [{}, {"t": 2}],
        [{}, {"t": 3}],
        [{"t": 0}, {"t": 0}],
    ]


def test_disabled_written_out_with_two_copies_that_are_reset_in_turns() -> None:
    envs = [Relay((1, 2)), Relay((3, 1))]
    vec = from_pettingzoo([lambda: envs[0], lambda: envs[1]], autoreset="disabled")
    assert vec.num_envs == 4 and vec.agents == ["runner_0", "runner_1"] * 2
    vec.reset(seed=0)
    one, two, three = stepped(vec, 3)
    assert one.kind.tolist() == [TERM, STEP, STEP, TERM]
    assert two.kind.tolist() == [FROZEN, TERM, STEP, FROZEN]
    assert three.kind.tolist() == [FROZEN, FROZEN, TERM, FROZEN]
    assert three.dones.all() and three.ended.tolist() == [False, False, True, False]
    assert places(three.observations) == [(0, 0, 1), (1, 0, 2), (0, 0, 3), (1, 0, 1)]
    assert len(envs[0].asked) == 2, "once all its agents wait, a copy is asked nothing"
    again = vec.reset(mask=np.array([True, True, False, False]))
    assert places(again.observations) == [(0, 1, 0), (1, 1, 0), (0, 0, 3), (1, 0, 1)]
    assert again.dones.tolist() == [False, False, True, True] and list(again.infos) == [{"t": 0}, {"t": 0}, {}, {}]
    four = vec.step([4, 5, 6, 7])
    assert four.kind.tolist() == [TERM, STEP, FROZEN, FROZEN] and four.rewards.tolist() == [14.0, 15.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"^mask is False for agent 'runner_1' \(sub-env 1\) and True for agent") as no:
        vec.reset(mask=np.array([True, False, False, False]))
    assert str(no.value).endswith("give sub-envs 0 to 1 the same (a Collector does so with restart='all').")
    assert vec.step([0] * 4).kind.tolist() == [FROZEN, TERM, FROZEN, FROZEN], "nothing had moved"


class Deep(Relay):
    """Reuses lists within its infos, too."""

    def _seen(self) -> Any:
        observations, infos = super()._seen()
        for info in infos.values():
            info.setdefault("deep", [0])[0] = self.t
        return observations, infos


def test_results_are_never_written_to_again() -> None:
    vec = from_pettingzoo(Deep())
    held = [vec.reset(seed=0), *stepped(vec, 9)]
    then = [(each.observations.copy(), repr(each.infos)) for each in held]
    assert held[1].infos[0] == {"t": 1, "deep": [1]}
    stepped(vec, 9)
    for each, (observations, infos) in zip(held, then, strict=True):
        assert np.array_equal(each.observations, observations) and repr(each.infos) == infos


# ---- what is collected is what agents do --------------------------------------------------------------

LENGTHS = st.lists(st.tuples(*[st.integers(1, 5)] * 2), min_size=1, max_size=3)
ENDINGS = st.tuples(*[st.sampled_from(["terminated", "truncated", "both"])] * 2)


@pytest.mark.parametrize("mode", MODES)
@given(lengths=LENGTHS, endings=ENDINGS, rows=st.integers(1, 9))
def test_collected_transitions_are_those_of_each_agent_by_itself(
    mode: str, lengths: list[tuple[int, int]], endings: tuple[str, str], rows: int
) -> None:
    vec = from_pettingzoo([lambda one=one: Relay(one, endings) for one in lengths], autoreset=mode)
    restart: Any = "all" if mode == "disabled" else "each"
    collector = Collector(
        vec, CodedPolicy(), fragment_length=rows, values=True, state_stride=2, restart=restart, infos=["t"]
    )
    fragments = [collector.collect() for _ in range(3)]
    for slot in range(vec.num_envs):
        script = [(lengths[slot // 2][slot % 2], endings[slot % 2])]
        found = [one for fragment in fragments for one in transitions(fragment, slot)]
        assert found == [one for one, _ in zip(by_hand(slot % 2, script), found, strict=False)]
    for fragment in fragments:
        check_marks(fragment)
        check_memory(fragment)
        valid = fragment.valid
        assert np.array_equal(fragment.infos["t"][valid], fragment.step_index[valid] + 1)
    counters = collector.counters
    assert counters.valid + counters.reset_only + counters.frozen == counters.rows == 3 * rows * vec.num_envs
    assert counters.valid == sum(int(fragment.valid.sum()) for fragment in fragments)


@pytest.mark.parametrize("mode", MODES)
def test_statistics_and_evaluation_see_each_episode_of_each_agent_once(mode: str) -> None:
    vec = from_pettingzoo([Relay] * 2, autoreset=mode)
    recorded = sekai.VecRecordEpisodeStatistics(vec)
    recorded.reset(seed=0)
    ended = []
    for _ in range(4):
        result = recorded.step([1] * 6)
        ended += [
            (int(slot), result.final_info(int(slot))["episode"].episode_return) for slot in np.flatnonzero(result.ended)
        ]
    # lengths 2, 4 and 3: 11 + 21, 11 + 21 + 31 + 41, 11 + 21 + 31
    assert sorted(ended) == [(0, 32.0), (1, 104.0), (2, 63.0), (3, 32.0), (4, 104.0), (5, 63.0)]


@pytest.mark.parametrize("mode", MODES)
def test_stacked_frames_are_those_of_one_agent_in_one_episode(mode: str) -> None:
    vec = sekai.VecFrameStackObservation(from_pettingzoo([Relay] * 2, autoreset=mode), 2)
    vec.reset(seed=0)
    for _ in range(12):
        result = vec.step([0] * 6)
        for slot, (before, now) in enumerate(result.observations.astype(int).tolist()):
            assert now[0] == slot % 3 and before == [slot % 3, now[1], max(now[2] - 1, 0)]
        if mode == "disabled" and result.dones.all():
            vec.reset()


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_evaluation_plays_as_many_episodes_of_each_agent(mode: str) -> None:
    vec = from_pettingzoo([Relay] * 2, autoreset=mode)
    result = evaluate(lambda observations: np.ones(6, np.int64), vec, 12, seed=0)
    assert sorted(result.returns.tolist()) == [32.0] * 4 + [63.0] * 4 + [104.0] * 4


# ---- seeds and options --------------------------------------------------------------------------------


def test_a_seed_becomes_one_for_each_copy_whatever_their_number() -> None:
    one, two = (from_pettingzoo([Relay] * copies) for copies in (1, 2))
    for vec in (one, two):
        vec.reset(seed=5)
    seeds = [env.seeds[-1] for env in two.envs]
    assert seeds == sekai.seeding.spawn_seeds(5, 2) and one.envs[0].seeds == seeds[:1]
    two.reset()
    assert [env.seeds[-1] for env in two.envs] == [None, None]
    two.reset(seed=[3, 3, 3, None, None, None], options=[{"at": 2}] * 3 + [None] * 3)
    assert [env.seeds[-1] for env in two.envs] == [3, None]
    assert [env.episode for env in two.envs] == [200, 2]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"seed": [1, 2, 1, 4, 4, 4]}, ValueError, r"^seed is 2 for agent 'runner_1' \(sub-env 1\) and 1 for agent"),
        ({"seed": [np.random.default_rng(0), *[1] * 5]}, TypeError, r"^seed\[0\] is a generator; PettingZoo takes"),
        ({"options": [{"at": 1}, None, None, None, None, None]}, ValueError, r"^options is None for agent 'runner_1'"),
        ({"seed": [1, 2]}, ValueError, "^seed has 2 entries; expected 6"),
        ({"mask": [True]}, ValueError, r"^mask has shape \(1,\)"),
    ],
)
def test_resets_that_tell_agents_apart_are_refused_and_nothing_moves(
    given: Any, error: type[Exception], text: str
) -> None:
    vec = from_pettingzoo([Relay] * 2)
    vec.reset(seed=0)
    with pytest.raises(error, match=text):
        vec.reset(**given)
    assert [env.episode for env in vec.envs] == [0, 0] and not vec.lost_rows.any()


# ---- what is refused ----------------------------------------------------------------------------------


def other_space(kind: int) -> Relay:
    env = Relay()
    spaces = list(env.spaces["runner_2"])
    spaces[kind] = (sekai.Box(0.0, 1.0, (2,)), sekai.Discrete(4))[kind]
    env.spaces["runner_2"] = tuple(spaces)
    return env


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: other_space(0), sekai.SpaceMismatch, r"^The observation space of agent 'runner_2' \(sub-env 2\) diff"),
        (lambda: other_space(1), sekai.SpaceMismatch, r"^The action space of agent 'runner_2' \(sub-env 2\) differs"),
        (
            lambda: [Relay, lambda: other_space(0)],
            sekai.SpaceMismatch,
            r"^The observation space of agent 'runner_2' \(sub-env 5\) differs from that of agent 'runner_0'",
        ),
        (lambda: [Relay, lambda: Relay((1, 2))], ValueError, r"^The agents of copy 1 are \['runner_0', 'runner_1'\]; "),
        (lambda: Relay(()), ValueError, "possible_agents are empty"),
        (lambda: [], ValueError, "^A vector environment needs at least one"),
        (
            lambda: Relay,
            TypeError,
            r"^env is <class .*Relay'>; give factories in a list, one per copy: \[factor",
        ),
        (lambda: parallel_to_aec(Relay()), TypeError, r"of an AEC environment make a parallel one, pettingzoo\.utils"),
        (lambda: gymnasium.make("CartPole-v1"), TypeError, r"a single environment goes into sekai\.SyncVecEnv"),
        (lambda: [lambda: 3], TypeError, r"^What env_fns\[0\] returned is 3 \(int\); expected a parallel environment"),
        (lambda: 3, TypeError, r"^env is 3 \(int\); expected a parallel environment: a pettingzoo\.ParallelEnv has"),
        (lambda: [Relay()], TypeError, r"^env_fns\[0\] is .*; expected a callable"),
    ],
)
def test_what_is_no_parallel_environment_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        from_pettingzoo(make())


def test_a_construction_that_fails_closes_what_was_built() -> None:
    envs = [Relay(), Relay((1, 2))]
    with pytest.raises(ValueError, match="agents of copy 1"):
        from_pettingzoo([lambda: envs[0], lambda: envs[1]])
    assert [env.closed for env in envs] == [1, 1]
    with pytest.raises(ValueError, match=r"^env_fns\[1\] returned the environment of env_fns\[0\] again"):
        from_pettingzoo([lambda: envs[0]] * 2)


class Broken(Relay):
    """Does one thing wrong, in its second step."""

    def __init__(self, change: Callable[[Any, list[Any]], None]) -> None:
        super().__init__((3, 3))
        self.change = change

    def step(self, actions: Any) -> Any:
        columns = list(super().step(actions))
        if self.t == 2:
            self.change(self, columns)
        return tuple(columns)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda env, columns: columns[0].pop("runner_1"),
            InvalidObservation,
            r"returned no observation of agent",
        ),
        (
            lambda env, columns: columns[1].pop("runner_1"),
            InvalidObservation,
            r"no reward of agent 'runner_1' \(s",
        ),
        (lambda env, columns: columns[2].pop("runner_1"), InvalidObservation, r"no termination of agent 'runner"),
        (
            lambda env, columns: columns[3].pop("runner_1"),
            InvalidObservation,
            r"no truncation of agent 'runner_1",
        ),
        (
            lambda env, columns: env.agents.remove("runner_1"),
            InvalidObservation,
            r"^Agent 'runner_1' of relay \(sub-env 3\) was neither terminated nor truncated and is no more in env\.ag",
        ),
        (
            lambda env, columns: columns[2].update(runner_1=True),
            InvalidObservation,
            r"^Agent 'runner_1' of relay \(sub-env 3\) has ended and is still in env\.agents, which is \['runner",
        ),
        (
            lambda env, columns: columns[1].update(runner_1="x"),
            InvalidObservation,
            "^sub-env 3 returned the rewa",
        ),
        (
            lambda env, columns: columns[4].update(runner_1="x"),
            InvalidObservation,
            "^sub-env 3 returned the info",
        ),
        (
            lambda env, columns: columns[0].update(runner_1=np.zeros(2)),
            InvalidObservation,
            "^sub-env 3: observation",
        ),
        (lambda env, columns: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_copy_that_fails_needs_a_reset_and_the_other_goes_on(
    mode: str, change: Any, error: type[Exception], text: str
) -> None:
    vec = from_pettingzoo([lambda: Relay((3, 4)), lambda: Broken(change)], autoreset=mode)
    vec.reset(seed=0)
    vec.step([0] * 4)
    with pytest.raises(error, match=text) as caught:
        vec.step([0] * 4)
    assert "failed sub-envs: [2, 3]; each needs a reset" in caught.value.__notes__
    assert vec.lost_rows.all() and vec.envs[0].t == 2, "the other copy was stepped, and nobody has seen its rows"
    with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[2, 3\] need a reset"):
        vec.step([0] * 4)
    again = vec.reset(mask=np.array([False, False, True, True]))
    assert places(again.observations) == [(0, 0, 2), (1, 0, 2), (0, 1, 0), (1, 1, 0)]
    result = vec.step([0] * 4)
    assert result.kind.tolist() == [LOST, LOST, STEP, STEP] and result.terminated.tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert places(result.observations) == [(0, 0, 3), (1, 0, 3), (0, 1, 1), (1, 1, 1)]


def test_the_first_row_of_an_agent_that_waited_is_lost_with_the_call_that_brought_it() -> None:
    """In call 2 copy 0 is reset, and copy 1 fails."""
    vec = from_pettingzoo([lambda: Relay((1, 2)), lambda: Broken(lambda env, columns: 1 / 0)])
    vec.reset(seed=0)
    assert vec.step([0] * 4).kind.tolist() == [TERM, STEP, STEP, STEP]
    with pytest.raises(ZeroDivisionError):
        vec.step([0] * 4)
    assert vec.lost_rows.all()
    vec.reset(mask=np.array([False, False, True, True]))
    result = vec.step([0] * 4)
    assert result.kind.tolist() == [LOST, LOST, STEP, STEP] and places(result.observations)[0] == (0, 1, 1)


def test_an_interrupt_loses_the_rows_of_the_copies_that_had_moved() -> None:
    def interrupt(env: Any, columns: Any) -> None:
        raise KeyboardInterrupt

    vec = from_pettingzoo([lambda: Relay((3, 3)), lambda: Broken(interrupt), lambda: Relay((3, 3))])
    vec.reset(seed=0)
    vec.step([0] * 6)
    with pytest.raises(KeyboardInterrupt):
        vec.step([0] * 6)
    assert vec.lost_rows.tolist() == [True] * 4 + [False] * 2 and vec.get_attr("t") == [2, 2, 2, 2, 1, 1]
    with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[2, 3\] need a reset"):
        vec.step([0] * 6)
    vec.reset(mask=np.array([False, False, True, True, False, False]))
    assert vec.step([0] * 6).kind.tolist() == [LOST, LOST, STEP, STEP, STEP, STEP]


class Absent(Relay):
    """Begins its second episode without its last agent."""

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        observations, infos = super().reset(seed, options)
        if self.episode:
            del self.agents[-1], observations["runner_2"]
        return observations, infos


def test_an_episode_without_one_of_the_agents_is_refused() -> None:
    vec = from_pettingzoo([Absent])
    vec.reset(seed=0)
    with pytest.raises(
        InvalidObservation, match=r"^relay\.reset\(\) began an episode without agent 'runner_2' \(sub-env 2\): "
    ):
        vec.reset()
    with pytest.raises(sekai.ResetRequired):
        vec.step([0] * 3)


def test_a_reset_that_fails_lets_the_other_copies_begin() -> None:
    vec = from_pettingzoo([Absent, Relay])
    vec.reset(seed=0)
    with pytest.raises(InvalidObservation) as caught:
        vec.reset()
    assert "failed sub-envs: [0, 1, 2]; each needs a reset" in caught.value.__notes__
    assert vec.lost_rows.all() and vec.get_attr("episode") == [1] * 6
    with pytest.raises(sekai.ResetRequired, match=r"sub-envs \[0, 1, 2\] need a reset"):
        vec.step([0] * 6)


def test_infos_may_be_left_out_and_agents_may_stay_named_after_the_last_end() -> None:
    class Terse(Relay):
        def step(self, actions: Any) -> Any:
            *columns, _ = super().step(actions)
            self.agents = list(actions)  # kept, as many environments do
            return *columns, {}

    vec = from_pettingzoo(Terse((2, 2)), autoreset="next_step")
    vec.reset(seed=0)
    results = stepped(vec, 3)
    assert [result.kind.tolist() for result in results] == [[STEP] * 2, [TERM] * 2, [RESET] * 2]
    assert list(results[1].infos) == [{}, {}] and list(results[2].infos) == [{"t": 0}] * 2


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_adapters_without_a_word_for_waiting_agents_refuse_them(mode: str) -> None:
    adapted: Any = to_gymnasium_vector(from_pettingzoo(Relay((1, 2)), autoreset=mode))
    text = (
        r"^The episodes of sub-envs \[0\] have ended before those of other agents .* gymnasium cannot leave a row out"
    )
    adapted.reset(seed=0)
    with pytest.raises(RuntimeError, match=text):
        adapted.step([0, 0])
        adapted.step([0, 0])
    together = to_gymnasium_vector(from_pettingzoo(Relay((2, 2)), autoreset=mode))
    together.reset(seed=0)
    assert [together.step([0, 0])[2].tolist() for _ in range(2)] == [[False] * 2, [True] * 2]


def test_stable_baselines_is_told_likewise() -> None:
    pytest.importorskip("stable_baselines3")
    adapted = to_sb3(from_pettingzoo(Relay((1, 2))))
    adapted.reset()
    with pytest.raises(RuntimeError, match=r"sub-envs \[0\] have ended before those of .* Stable-Baselines3 cannot"):
        adapted.step(np.array([0, 0]))
    together = to_sb3(from_pettingzoo(Relay((1, 1))))
    together.reset()
    _, rewards, dones, infos = together.step(np.array([3, 4]))
    assert rewards.tolist() == [13.0, 14.0] and dones.all()
    assert infos[1]["terminal_observation"].tolist() == [1, 0, 1]


# ---- the environments beneath -------------------------------------------------------------------------


class Named(BaseParallelWrapper):  # type: ignore[type-arg]
    """Has an attribute of its own."""

    name = "outer"


def test_attributes_reach_the_layer_that_has_them_once_for_each_copy() -> None:
    vec = from_pettingzoo([lambda: Named(Relay((2, 3)))] * 2)
    assert vec.layers() == ["FromPettingZoo", "Named", "Relay"]
    assert vec.get_attr("name") == ["outer"] * 4 and vec.get_attr("t") == [0] * 4
    vec.set_attr("t", [5, 5, 6, 6])
    assert [env.env.t for env in vec.envs] == [5, 6] and "t" not in vars(vec.envs[0])
    vec.set_attr("name", "other")
    assert [vars(env)["name"] for env in vec.envs] == ["other"] * 2
    with pytest.raises(ValueError, match=r"^t is 6 for agent 'runner_1' \(sub-env 1\) and 5"):
        vec.set_attr("t", [5, 6, 7, 7])
    with pytest.raises(AttributeError, match=r"has no attribute 'episod'\. Did you mean 'episode'"):
        vec.set_attr("episod", 3)
    assert vec.call("render") == vec.render() == ["step 5"] * 2 + ["step 6"] * 2 and vec.render_mode == "ansi"
    vec.close()
    vec.close()
    assert [env.env.closed for env in vec.envs] == [1, 1]
    with pytest.raises(sekai.VecEnvClosed):
        vec.step([0] * 4)


@pytest.mark.parametrize("mode", MODES)
def test_copies_with_one_agent_have_no_problems(mode: str) -> None:
    class Walker(Relay):
        metadata = {"name": "walker", "finite_horizon": True}  # noqa: RUF012  # as PettingZoo has it

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.episode = -1  # what is checked is that a seed determines everything
            return super().reset(seed, options)

    fns = [lambda length=length: Walker([length]) for length in (2, 3, 5)]
    assert check_vec_env(from_pettingzoo(fns, autoreset=mode), steps=60) == []


# ---- PettingZoo's own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_rock_paper_scissors(mode: str) -> None:
    pytest.importorskip("pygame")
    vec = from_pettingzoo([lambda: pettingzoo.make("parallel", "classic/rps-v2", max_cycles=3)] * 2, autoreset=mode)
    rock, paper, scissors, nothing = range(4)
    assert vec.reset(seed=0).observations.tolist() == [nothing] * 4
    result = vec.step([rock, paper, scissors, scissors])
    assert result.observations.tolist() == [paper, rock, scissors, scissors], "what the other one played"
    assert result.rewards.tolist() == [-1, 1, 0, 0]
    result = vec.step([rock, scissors, paper, rock])
    assert result.rewards.tolist() == [1, -1, 1, -1] and result.plain
    result = vec.step([paper, paper, rock, paper])
    assert result.kind.tolist() == [TRUNC] * 4 and result.rewards.tolist() == [0, 0, -1, 1]
    assert [int(result.final_observation(slot)) for slot in range(4)] == [paper, paper, paper, rock]
    after = result.observations.tolist()
    assert after == ([nothing] * 4 if mode == "same_step" else [paper, paper, paper, rock])
    vec.close()


def test_agents_that_fall_before_others_freeze_in_a_game_of_pettingzoo() -> None:
    """Knights who walk into zombies: some fall first."""
    pytest.importorskip("pygame")

    def make() -> Any:
        return pettingzoo.make("parallel", "butterfly/knights_archers_zombies-v11", max_cycles=400)

    vec, alone = from_pettingzoo([make] * 2, autoreset="next_step"), make()
    rng, frozen, ends = np.random.default_rng(0), 0, 0
    vec.reset(seed=[7] * 4 + [8] * 4)
    observations, _ = alone.reset(seed=7)
    for _ in range(300):
        actions = rng.integers(0, 6, 8)
        result = vec.step(actions)
        if result.kind[0] == RESET:
            break
        given = {agent: actions[alone.possible_agents.index(agent)] for agent in alone.agents}
        seen, rewards, terminated, truncated, _ = alone.step(given)
        for slot, agent in enumerate(alone.possible_agents):
            if agent in given:
                observations[agent] = seen[agent]
                assert result.valid[slot] and result.rewards[slot] == rewards[agent]
                assert (result.terminated[slot], result.truncated[slot]) == (terminated[agent], truncated[agent])
            else:
                assert result.kind[slot] == FROZEN and result.dones[slot]
                frozen += 1
            assert np.array_equal(result.observations[slot], observations[agent])
        ends += int(result.ended[:4].sum())
    assert ends == 4 and frozen > 0
    vec.close()
    alone.close()
