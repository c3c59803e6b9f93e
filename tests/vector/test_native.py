"""`NativeVecEnv`: hooks, seeds, the time limit, held rows and actions. What all backends share is in tests/contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import MODES, CodedVec, draws

DATES = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")


class Lanes(sekai.NativeVecEnv):
    """Two slots by default; a subclass or a test overrides what a hook returns through `give`."""

    def __init__(
        self, n: int = 2, space: Any = None, action_space: Any = None, lengths: Any = 99, **kwargs: Any
    ) -> None:
        super().__init__(n, space or sekai.Box(-1e6, 1e6, (1,)), action_space or sekai.Discrete(9), **kwargs)
        self.t, self.lengths, self.give = np.zeros(n, int), np.broadcast_to(lengths, n), {}
        self.seen: list[Any] = []

    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.t[indices] = 0

    def _reset_infos(self, indices: Any) -> Any:
        return self.give.get("reset_infos", {})

    def _observe(self) -> Any:
        return self.give.get("observe", self.t[:, None].astype(np.float32))

    def _step(self, actions: Any) -> Any:
        self.seen.append(actions)
        self.t += ~self.frozen
        n = self.num_envs
        given = {
            "rewards": np.ones(n),
            "terminated": self.t >= self.lengths,
            "truncated": np.zeros(n, bool),
            "infos": {},
        }
        return tuple((given | self.give)[name] for name in given)


@pytest.mark.parametrize("given", [None, (1, 2, 3), [1, 2, 3, 4]])
def test_a_step_that_does_not_return_four_things_is_named(given: Any) -> None:
    class Odd(Lanes):
        def _step(self, actions: Any) -> Any:
            return given

    vec = Odd()
    vec.reset(seed=0)
    with pytest.raises(
        sekai.InvalidObservation, match=r"^Odd\._step\(\) returned .*; expected a tuple of four: rewards"
    ):
        vec.step([0, 0])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rewards": [1.0, 1.0]}, r"_step(): rewards is [1.0, 1.0] (list); expected an array of shape (2,)"),
        ({"rewards": np.ones((2, 1))}, "_step(): rewards is an array of shape (2, 1) and dtype float64"),
        ({"rewards": np.ones(2, complex)}, "_step(): rewards is an array of shape (2,) and dtype complex128"),
        ({"rewards": 1.0}, "_step(): rewards is 1.0 (float)"),
        ({"terminated": np.zeros(2)}, "_step(): terminated is an array of shape (2,) and dtype float64; expected an "
            "array of shape (2,) and dtype bool."),
        ({"truncated": False}, "_step(): truncated is False (bool)"),
        ({"truncated": np.zeros(3, bool)}, "_step(): truncated is an array of shape (3,)"),
        ({"infos": [{}, {}]}, "_step(): infos is [{}, {}]; expected a dict of arrays."),
        ({"infos": {"a": 1}}, "_step(): infos['a'] is 1 (int); expected an array with a leading axis of 2."),
        ({"infos": {"a": np.zeros(3)}}, "_step(): infos['a'] is an array of shape (3,) and dtype float64"),
        ({"infos": {"a": np.float64(1)}}, "_step(): infos['a'] is"),
        ({"infos": {"a": [1, 2]}}, "_step(): infos['a'] is [1, 2] (list)"),
    ],
)  # fmt: skip
def test_what_step_returns_is_checked_with_the_hook_and_the_part_named(given: Any, text: str) -> None:
    vec = Lanes()
    vec.reset(seed=0)
    vec.give = given
    with pytest.raises(sekai.InvalidObservation) as caught:
        vec.step([0, 0])
    assert str(caught.value).startswith("Lanes." + text)
    vec.give = {}
    assert vec.step([0, 0]).kind.tolist() == [RowKind.LOST] * 2, "and it can be stepped on"


@pytest.mark.parametrize(
    ("observe", "text"),
    [
        (
            np.zeros((2, 1)),
            "an array of shape (2, 1) and dtype float64; expected an array of shape (2, 1) and dtype float32.",
        ),
        (np.zeros(2, np.float32), "an array of shape (2,) and dtype float32; expected an array of shape (2, 1)"),
        ([[0.0], [0.0]], "[[0.0], [0.0]] (list); expected an array"),
        (None, "None (NoneType); expected an array"),
    ],
)
def test_what_observe_returns_is_checked_with_the_hook_named(observe: Any, text: str) -> None:
    vec = Lanes()
    vec.give["observe"] = observe
    with pytest.raises(sekai.InvalidObservation) as caught:
        vec.reset(seed=0)
    assert str(caught.value).startswith(f"Lanes._observe() returned {text}")
    vec.give.clear()
    vec.reset(seed=0)
    assert vec.step([0, 0]).kind.tolist() == [RowKind.STEP] * 2


def test_what_reset_infos_returns_is_checked_against_the_slots_that_were_reset() -> None:
    vec = Lanes(3)
    vec.give["reset_infos"] = {"a": np.zeros(2)}
    with pytest.raises(sekai.InvalidObservation, match=r"^Lanes\._reset_infos\(\)\['a'\] is an array of shape \(2,\)"):
        vec.reset(seed=0)
    with pytest.raises(sekai.ResetRequired):
        vec.step([0, 0, 0])
    vec.give.clear()
    vec.reset()
    vec.give["reset_infos"] = {"a": np.array([5.0, 6.0])}
    assert list(vec.reset(mask=np.array([True, False, True])).infos) == [{"a": 5.0}, {}, {"a": 6.0}]


@pytest.mark.parametrize("hook", ["_reset_envs", "_observe", "_step"])
def test_a_missing_hook_says_which(hook: str) -> None:
    bare = type("Bare", (Lanes,), {hook: getattr(sekai.NativeVecEnv, hook)})
    vec = bare()
    with pytest.raises(NotImplementedError, match=rf"^Bare must implement {hook}\("):
        vec.reset(seed=0)
        vec.step([0, 0])


@pytest.mark.parametrize("n", [0, -1, True, 2.0, "2", None])
def test_the_number_of_slots_must_be_a_positive_int(n: Any) -> None:
    error = ValueError if n in (0, -1) else TypeError
    with pytest.raises(error, match=r"^num_envs is .*; expected an int of at least 1"):
        sekai.NativeVecEnv(n, sekai.Box(0.0, 1.0, (1,)), sekai.Discrete(2))
    assert Lanes(np.int64(3)).num_envs == 3  # type: ignore[arg-type]  # NumPy's ints are ints too


# ---- frozen slots ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_slots_that_wait_are_frozen_and_handed_their_last_action(mode: str) -> None:
    vec = Lanes(3, lengths=[1, 2, 99], autoreset=mode)
    vec.reset(seed=0)
    assert vec.frozen.tolist() == [False] * 3
    vec.step([1, 2, 3])
    assert vec.frozen.tolist() == [True, False, False]
    vec.step([4, 5, 6])
    vec.step([7, 8, 0])
    seen = [actions.tolist() for actions in vec.seen]
    # next_step: slot 0 waits in call 2 only (so 1 again), slot 1 in call 3; disabled: slot 0 keeps its 1 for good
    assert seen == [[1, 2, 3], [1, 5, 6], {"next_step": [7, 5, 0], "disabled": [1, 5, 0]}[mode]]
    assert vec.frozen.tolist() == {"next_step": [True, False, False], "disabled": [True, True, False]}[mode]
    vec.reset()
    assert not vec.frozen.any()


def test_held_actions_of_dict_batches_are_held_part_by_part() -> None:
    actions = sekai.Dict({"go": sekai.Discrete(9), "by": sekai.Box(-9.0, 9.0, (1,))})
    vec = Lanes(2, action_space=actions, lengths=[1, 99], autoreset=False)
    vec.reset(seed=0)
    vec.step({"go": [1, 2], "by": [[1.0], [2.0]]})
    vec.step([{"go": 3, "by": [3.0]}, {"go": 4, "by": [4.0]}])
    assert vec.seen[1]["go"].tolist() == [1, 4] and vec.seen[1]["by"].tolist() == [[1.0], [4.0]]


def test_a_simulation_that_ignores_frozen_still_shows_frozen_rows() -> None:
    class Runs(Lanes):
        def _step(self, actions: Any) -> Any:
            self.t += 1  # also the slots that have ended
            n = self.num_envs
            return 10.0 * self.t, self.t == self.lengths, np.zeros(n, bool), {"t": self.t.copy()}

    vec = Runs(2, lengths=[1, 99], autoreset=False)
    vec.reset(seed=0)
    first = vec.step([0, 0])
    later = [vec.step([0, 0]) for _ in range(3)][-1]
    assert later.observations.tolist() == [[1.0], [4.0]] and first.observations.tolist() == [[1.0], [1.0]]
    assert later.rewards.tolist() == [0.0, 40.0] and later.terminated.tolist() == [True, False]
    assert list(later.infos) == [{}, {"t": 4}]
    assert vec.reset(mask=np.array([False, True])).observations.tolist() == [[1.0], [0.0]], "its own held row"


# ---- the optional row hook -------------------------------------------------------------------------


class Rows(CodedVec):
    """`CodedVec` with `_observe_rows`, counting the calls of both hooks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.whole, self.rows = 0, []  # type: ignore[var-annotated]  # lists of ints
        super().__init__(*args, **kwargs)

    def _observe(self) -> Any:
        self.whole += 1
        return super()._observe()

    def _observe_rows(self, indices: Any, out: Any) -> None:
        self.rows.append(indices.tolist())
        out[indices] = CodedVec._observe(self)[indices]


@pytest.mark.parametrize("mode", MODES)
def test_observing_only_the_rows_that_were_reset_gives_the_same_results(mode: str) -> None:
    lengths, endings = (1, 2, 3), ("terminated", "truncated", "both")
    short, full = Rows(lengths, endings, autoreset=mode), CodedVec(lengths, endings, autoreset=mode)
    for vec in (short, full):
        vec.reset(seed=0)
    for _ in range(9):
        a, b = short.step([1, 2, 3]), full.step([1, 2, 3])
        assert np.array_equal(a.observations, b.observations) and a.infos == b.infos
        assert a.kind.tolist() == b.kind.tolist() and a.rewards.tolist() == b.rewards.tolist()
    assert short.whole == 10, "one whole observation for the reset and for each step"
    # slots whose rows were gathered again: those that were reset, in the calls in which they were
    expected = {
        "same_step": [[0], [0, 1], [0, 2], [0, 1], [0], [0, 1, 2], [0], [0, 1], [0, 2]],
        # cycles of 2, 3 and 4 calls: slot 0 is reset in calls 2, 4, 6, 8; slot 1 in 3, 6, 9; slot 2 in 4, 8
        "next_step": [[0], [1], [0, 2], [0, 1], [0, 2], [1]],
        "disabled": [],
    }[mode]
    assert short.rows == expected


# ---- seeds -----------------------------------------------------------------------------------------


def test_an_int_seeds_the_one_generator_itself() -> None:
    vec = CodedVec((9, 9, 9), ("terminated",) * 3)
    assert draws(vec.reset(seed=11).observations) == np.random.default_rng(11).integers(10**12, size=3).tolist()
    assert draws(vec.reset(seed=np.int64(11)).observations) == draws(vec.reset(seed=11).observations)


def test_lists_of_seeds_are_combined_none_and_generators_contributing_a_draw() -> None:
    vec = CodedVec((9, 9, 9), ("terminated",) * 3)

    def start(seed: Any) -> list[int]:
        return draws(vec.reset(seed=seed).observations)

    assert start([1, 2, 3]) == start((1, 2, 3)) == start(np.array([1, 2, 3])) != start([3, 2, 1])
    combined = np.random.default_rng(np.random.SeedSequence([1, 2, 3])).integers(10**12, size=3).tolist()
    assert start([1, 2, 3]) == combined
    # a generator contributes a draw from that generator, and advances
    generator, twin = np.random.default_rng(5), np.random.default_rng(5)
    assert start([1, generator, 3]) == start([1, int(twin.integers(2**63)), 3])
    assert generator.integers(100) == twin.integers(100)
    # None contributes a draw from the current stream
    vec.reset(seed=8)
    once = start([1, None, 3])
    stream = np.random.default_rng(8)
    stream.integers(10**12, size=3)  # what the reset above drew
    assert once == start([1, int(stream.integers(2**63)), 3])


def test_a_list_of_nones_continues_the_stream() -> None:
    vec = CodedVec((9, 9), ("terminated",) * 2)
    vec.reset(seed=8)
    continued = draws(vec.reset(seed=[None, None]).observations)
    stream = np.random.default_rng(8)
    assert [*stream.integers(10**12, size=2), *stream.integers(10**12, size=2)][2:] == continued


def test_a_seed_with_a_partial_mask_is_refused_and_changes_nothing() -> None:
    vec = CodedVec((9, 9), ("terminated",) * 2)
    vec.reset(seed=8)
    for seed in (1, [1, 2], [1, None]):
        with pytest.raises(ValueError, match=r"^A seed together with a partial mask would also change the stream"):
            vec.reset(seed=seed, mask=np.array([True, False]))
    stream = np.random.default_rng(8)
    stream.integers(10**12, size=2)
    assert (
        draws(vec.reset(seed=[None, None], mask=np.array([False, True])).observations)[1]
        == stream.integers(10**12, size=1)[0]
    )
    assert draws(vec.reset(seed=8, mask=np.array([True, True])).observations) == [
        *np.random.default_rng(8).integers(10**12, size=2)
    ], "a full mask is no partial one"


def test_options_can_be_refused_before_anything_moves() -> None:
    class Careful(CodedVec):
        def _check_options(self, indices: Any, options: Any) -> None:
            for index, given in zip(indices, options, strict=True):
                if given and "at" in given and given["at"] > 5:
                    raise ValueError(f"options of sub-env {index}: at is {given['at']}; expected at most 5.")

    vec = Careful((9, 9), ("terminated",) * 2)
    vec.reset(seed=8)
    before = vec.step([0, 0])
    with pytest.raises(ValueError, match="options of sub-env 1: at is 6"):
        vec.reset(seed=1, options=[{"at": 2}, {"at": 6}])
    assert np.array_equal(vec.reset(mask=np.zeros(2, bool)).observations, before.observations)
    assert draws(vec.reset().observations) == np.random.default_rng(8).integers(10**12, size=4).tolist()[2:]


# ---- time limit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_time_limit_truncates_and_counts_in_every_mode(mode: str) -> None:
    vec = Lanes(2, lengths=[2, 99], max_episode_steps=3, autoreset=mode)
    vec.reset(seed=0)
    assert vec.get_attr("max_episode_steps") == [3, 3]
    results = [vec.step([0, 0]) for _ in range(4)]
    counted = [[row.get("elapsed_steps") for row in result.infos] for result in results]
    kinds = [result.kind.tolist() for result in results]
    step, terminated, truncated, reset, frozen = 0, 1, 2, 3, 4
    # slot 0 terminates at 2, before the limit; slot 1 is cut at 3
    assert (
        counted
        == {
            "same_step": [[1, 1], [2, 2], [1, 3], [2, 1]],
            "next_step": [[1, 1], [2, 2], [None, 3], [1, None]],
            "disabled": [[1, 1], [2, 2], [None, 3], [None, None]],
        }[mode]
    )
    assert (
        kinds
        == {
            "same_step": [[step, step], [terminated, step], [step, truncated], [terminated, step]],
            "next_step": [[step, step], [terminated, step], [reset, truncated], [step, reset]],
            "disabled": [[step, step], [terminated, step], [frozen, truncated], [frozen, frozen]],
        }[mode]
    )
    assert results[2].final_info(1)["elapsed_steps"] == 3 and results[1].final_info(0)["elapsed_steps"] == 2
    assert vec.elapsed_steps.tolist() == {"same_step": [0, 1], "next_step": [1, 0], "disabled": [2, 3]}[mode]


def test_terminated_wins_where_an_episode_terminates_at_the_limit() -> None:
    vec = Lanes(1, lengths=[3], max_episode_steps=3)
    vec.reset(seed=0)
    last = [vec.step([0]) for _ in range(3)][-1]
    assert (last.terminated[0], last.truncated[0], last.kind[0]) == (True, True, RowKind.TERMINATED)


@pytest.mark.parametrize(("limit", "error"), [(2.7, TypeError), (True, TypeError), (0, ValueError), ("3", TypeError)])
def test_a_time_limit_that_is_no_positive_int_is_refused(limit: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"max_episode_steps is .*; expected an int of at least 1\."):
        Lanes(max_episode_steps=limit)


# ---- infos and observations ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_dates_in_infos_stay_dates_in_every_place(mode: str) -> None:
    class Dated(Lanes):
        def _reset_infos(self, indices: Any) -> Any:
            return {"date": DATES[self.t[indices]]}

        def _step(self, actions: Any) -> Any:
            rewards, terminated, truncated, _ = super()._step(actions)
            return rewards, terminated, truncated, {"date": DATES[self.t], "pair": np.stack([self.t, self.t], axis=1)}

    vec = Dated(2, lengths=[1, 2], autoreset=mode)
    assert [info["date"] for info in vec.reset(seed=0).infos] == [DATES[0]] * 2
    first = vec.step([0, 0])
    assert first.infos.columns["date"][0].dtype == DATES.dtype
    assert first.final_info(0)["date"] == DATES[1] and first.infos[1]["date"] == DATES[1]
    assert first.infos[1]["pair"].tolist() == [1, 1]
    if mode == "same_step":
        assert first.infos[0]["reset_info"]["date"] == DATES[0]
    assert {type(info["date"]) for info in first.infos} == {np.datetime64}


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations_work_in_every_mode(mode: str) -> None:
    space = sekai.Dict(
        {"t": sekai.Discrete(99), "pos": sekai.Tuple((sekai.Box(-1e6, 1e6, (2,)), sekai.MultiBinary(1)))}
    )

    class Parts(Lanes):
        def _observe(self) -> Any:
            rows = np.stack([np.arange(self.num_envs), self.t], axis=1).astype(np.float32)
            return {"t": self.t.copy(), "pos": (rows, (self.t[:, None] % 2).astype(np.int8))}

    vec = Parts(2, space, lengths=[2, 99], autoreset=mode)
    assert vec.batch_observation_space.contains(vec.reset(seed=0).observations)
    vec.step([0, 0])
    second = vec.step([0, 0])
    final = second.final_observation(0)
    assert space.contains(final) and int(final["t"]) == 2 and final["pos"][0].tolist() == [0, 2]
    third = vec.step([0, 0])
    assert third.observations["t"].tolist() == [{"same_step": 1, "next_step": 0, "disabled": 2}[mode], 3]
    assert third.observations["pos"][0][1].tolist() == [1, 3] and vec.batch_observation_space.contains(
        third.observations
    )


def test_a_batch_of_the_wrong_structure_names_the_place() -> None:
    space = sekai.Dict({"a": sekai.Box(-1.0, 1.0, (2,)), "b": sekai.Tuple((sekai.Discrete(3), sekai.Discrete(3)))})
    good = {"a": np.zeros((2, 2), np.float32), "b": (np.zeros(2, int), np.zeros(2, int))}
    for observe, text in (
        ({"a": good["a"]}, r"returned \['a'\]; expected a dict with keys \['a', 'b'\]"),
        (good["a"], "returned ndarray; expected a dict with keys"),
        ({**good, "b": [np.zeros(2, int)] * 2}, r"Lanes\._observe\(\)\['b'\] returned list; expected 2 parts"),
        ({**good, "b": (np.zeros(2, int),) * 3}, r"\['b'\] returned tuple; expected 2 parts"),
        (
            {**good, "b": (np.zeros(2, int), np.zeros(2))},
            r"Lanes\._observe\(\)\['b'\]\[1\] returned an array of .* float64",
        ),
    ):
        vec = Lanes(2, space)
        vec.give["observe"] = observe
        with pytest.raises(sekai.InvalidObservation, match=text):
            vec.reset(seed=0)
    vec = Lanes(2, space)
    vec.give["observe"] = good
    vec.reset(seed=0)


def test_integer_and_float32_rewards_come_as_float64() -> None:
    for dtype in (np.float32, np.int64, np.uint8):
        vec = Lanes()
        vec.reset(seed=0)
        vec.give["rewards"] = np.array([1, 2], dtype)
        result = vec.step([0, 0])
        assert result.rewards.dtype == np.float64 and result.rewards.tolist() == [1.0, 2.0]


def test_an_interrupt_in_the_hook_loses_the_rows_and_leaves_it_steppable() -> None:
    class Interrupted(Lanes):
        def _step(self, actions: Any) -> Any:
            if actions[0] == 8:
                raise KeyboardInterrupt
            return super()._step(actions)

    vec = Interrupted(3, lengths=[1, 99, 99], autoreset=False)
    vec.reset(seed=0)
    vec.step([0, 0, 0])
    vec.reset(mask=np.array([True, False, False]))
    with pytest.raises(KeyboardInterrupt):
        vec.step([8, 0, 0])
    assert vec.lost_rows.all()
    assert vec.step([0, 0, 0]).kind.tolist() == [RowKind.LOST] * 3
    assert not vec.lost_rows.any()
