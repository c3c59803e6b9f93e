"""`share_observations`: the policy acts on the fragment's own rows, and what is collected is the same to the bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings

import sekai
from sekai.collect import Collector, Decision, Fragment
from sekai.collect import recording as recording_module
from sekai.spaces import map_arrays
from sekai.testing import CodedEnv, CodedVecEnv
from tests.collect import test_gymnasium
from tests.collect.envs import MODES, CodedPolicy, Script, scripted
from tests.collect.test_memory import Structured
from tests.collect.test_timelines import Flaky, zeros
from tests.collect.test_truth import LENGTHS, SCRIPTS, collect_and_check
from tests.vector.test_step_into import NATIVE, Rowwise, make


def contents(fragment: Fragment) -> dict[str, Any]:
    """All that two fragments of the same rows have in common, as nestings of arrays."""
    names = (
        "observations", "tail_observations", "actions", "rewards", "terminated", "truncated", "kind", "episode_start",
        "tail_start", "infos", "extras", "values", "next_values", "tail_state", "begun", "taken",
    )  # fmt: skip
    found = {name: getattr(fragment, name) for name in names}
    finals = {"time": fragment.finals.time, "slots": fragment.finals.slots, "rows": fragment.finals.rows}
    return {**found, "finals": finals, "next_observations": fragment.next_observations()}


def assert_equal(one: Any, other: Any) -> None:
    map_arrays(np.testing.assert_array_equal, one, other)


class Summing:
    """A policy of prepared actions whose values are sums of what it sees; it remembers how often it was asked."""

    def __init__(self, vec: sekai.VecEnv) -> None:
        vec.batch_action_space.seed(5)
        self.draw = vec.batch_action_space.sample

    def initial_state(self, num_slots: int) -> Any:
        return np.zeros(num_slots)

    def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
        return Decision(self.draw(), state + 1, {"seen": self.value(observations, state)})

    def value(self, observations: Any, state: Any) -> Any:
        parts = observations.values() if isinstance(observations, dict) else [observations]
        return state + sum(part.reshape(len(part), -1).sum(axis=1, dtype=np.float64) for part in parts)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", ["sync", "native"])
@settings(max_examples=100)
@given(scripts=SCRIPTS, lengths=LENGTHS)
def test_shared_rows_are_what_single_environments_do(
    backend: str, mode: str, scripts: list[Script], lengths: list[int]
) -> None:
    vec = scripted(backend, scripts, mode)
    collect_and_check(vec, scripts, lengths[:1] if backend == "native" else lengths, share_observations=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*NATIVE, "coded", "rowwise"])
def test_fragments_of_native_environments_are_equal_to_the_bit(name: str, mode: str) -> None:
    kept = []
    for share in (False, True):
        with make(name, mode) as vec:
            collector = Collector(vec, Summing(vec), fragment_length=5, values=True, share_observations=share)
            collector.reset(seed=3)
            kept.append([contents(collector.collect()) for _ in range(4)])
    for copied, shared in zip(*kept, strict=True):
        assert_equal(shared, copied)
    assert any(part["terminated"].any() or part["truncated"].any() for part in kept[0])


@pytest.mark.parametrize("mode", MODES)
def test_so_are_those_of_structured_observations_and_of_gymnasium(mode: str) -> None:
    class Fixed(Structured):
        """Without the text."""

        observation_space = sekai.Dict({key: Structured.observation_space[key] for key in ("place", "pair")})

        def _observation(self) -> Any:
            return {key: super(Fixed, self)._observation()[key] for key in ("place", "pair")}

    def choose(observations: Any) -> Any:
        assert isinstance(observations["pair"], tuple)
        return [{"go": i, "far": (np.array([0, 0.5], np.float32),)} for i in range(2)]

    def structured(share: bool) -> Collector:
        vec = sekai.SyncVecEnv([Fixed, Fixed], autoreset=mode)
        return Collector(vec, choose, fragment_length=5, infos=["when"], share_observations=share)

    def plain(share: bool) -> Collector:
        vec = test_gymnasium.build([[(2, "terminated"), (3, "truncated")]] * 2, gymnasium_mode(mode))
        return Collector(vec, CodedPolicy(), fragment_length=5, values=True, share_observations=share)

    for build in (structured, plain):
        copied, shared = build(False), build(True)
        for _ in range(3):
            assert_equal(contents(shared.collect()), contents(copied.collect()))


def gymnasium_mode(mode: str) -> AutoresetMode:
    return AutoresetMode[mode.upper()]


@pytest.mark.parametrize("name", ["coded", "Portfolio-v0", "sync"])
def test_the_policy_acts_on_the_rows_of_the_fragment_and_cannot_write_to_them(name: str) -> None:
    seen: list[Any] = []
    vec = sekai.SyncVecEnv([lambda: CodedEnv(0, 3)]) if name == "sync" else make(name, "same_step")
    actions = vec.batch_action_space.sample()

    class Writing:
        def initial_state(self, num_slots: int) -> None: ...

        def act(self, observations: Any, state: Any, episode_start: Any) -> Decision:
            self._try_to_write(observations)
            seen.append(observations)
            return Decision(actions)

        def value(self, observations: Any, state: Any) -> Any:
            self._try_to_write(observations)
            return np.zeros(len(episode_rows(observations)))

        def _try_to_write(self, observations: Any) -> None:
            with pytest.raises(ValueError, match="read-only"):
                episode_rows(observations)[:] = 0

    writing = Writing()
    collector = Collector(vec, writing, fragment_length=4, share_observations=True)
    for _ in range(2):
        fragment = collector.collect()
        for t, observations in enumerate(seen[-4:]):
            map_arrays(
                lambda row, column, t=t: None if np.shares_memory(row, column[t]) else pytest.fail("a copy"),  # type: ignore[misc]
                observations,
                fragment.observations,
            )
    vec.close()


def test_nor_can_it_when_it_values_them() -> None:
    class Valuing(CodedPolicy):
        def value(self, observations: Any, state: Any) -> Any:
            if len(observations) == 2:  # those of all slots, the tail's too; final ones are its own
                with pytest.raises(ValueError, match="read-only"):
                    observations[:] = 0
            return super().value(observations, state)

    collector = Collector(CodedVecEnv(2, 9), Valuing(), fragment_length=3, values=True, share_observations=True)
    for _ in range(2):
        collector.collect()


def episode_rows(observations: Any) -> Any:
    return observations["returns"] if isinstance(observations, dict) else observations


def test_a_policy_that_writes_to_shared_rows_is_told_so() -> None:
    def policy(observations: Any) -> Any:
        observations += 1
        return zeros(observations)

    collector = Collector(CodedVecEnv(2, 3), policy, fragment_length=4, share_observations=True)
    with pytest.raises(ValueError, match="read-only"):
        collector.collect()


def test_torch_warns_of_shared_rows() -> None:
    torch = pytest.importorskip("torch")
    shown: list[str] = []

    def policy(observations: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.from_numpy(observations)
        shown.extend(str(one.message) for one in caught)
        return zeros(observations)

    Collector(CodedVecEnv(2, 3), policy, fragment_length=4, share_observations=True).collect()
    assert len(shown) <= 1 and all("not writable" in text for text in shown), "once in a process"


@pytest.mark.parametrize(("cls", "mode", "copies"), [
    (Rowwise, "same_step", 1),  # the first row of each fragment
    (Rowwise, "next_step", 1),
    (CodedVecEnv, "same_step", 3),  # and the two rows in which it observes anew after a restart
    (Rowwise, "disabled", 3),  # and the two that the collector put together itself
])  # fmt: skip
def test_rows_that_the_environment_wrote_are_not_copied(
    cls: Any, mode: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    write = recording_module.write

    def counting(columns: Any, index: Any, batch: Any, what: str) -> None:
        copied.append(what)
        write(columns, index, batch, what)

    monkeypatch.setattr(recording_module, "write", counting)
    collector = Collector(cls(2, 3, autoreset=mode), zeros, fragment_length=6, share_observations=True)
    collector.reset()
    copied.clear()
    collector.collect()
    assert copied.count("observations") == copies


def test_what_a_policy_keeps_never_changes_while_fragments_come_and_go() -> None:
    kept: list[tuple[Any, Any]] = []

    def policy(observations: Any) -> Any:
        if len(kept) < 30:
            kept.append((observations, observations.copy()))
        return zeros(observations)

    collector = Collector(Rowwise(2, 5), policy, fragment_length=4, share_observations=True)
    for _ in range(20):
        collector.collect().release()
    for observations, then in kept:
        assert observations.tolist() == then.tolist()


class Failing(Rowwise):
    """A call that has written its observations raises, once, and leaves rubbish in them; no slot is at its end then."""

    fails_at, failed = 0, False
    error: type[BaseException] = ValueError

    def _observe(self) -> Any:
        observations = super()._observe()
        self.fails_at -= 1
        if self.fails_at < 0 and not self.failed and (self.t < self.length).all():
            self.failed, observations[:] = True, -5
            raise self.error("went boom")
        return observations


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fails_at", range(1, 10))
def test_a_call_that_failed_leaves_nothing_in_any_row(fails_at: int, mode: str, error: Any) -> None:
    found = []
    for share in (False, True):
        vec = Failing(2, [3, 4], autoreset=mode)
        vec.fails_at, vec.error = fails_at, error
        collector = Collector(vec, CodedPolicy(), fragment_length=3, values=True, share_observations=share)
        kept, failed = [], 0
        while len(kept) < 4:
            try:
                kept.append(collector.collect())
            except error:
                failed += 1
        assert failed == 1
        found.append(tuple(contents(fragment) for fragment in kept))
    assert_equal(*found)
    assert all((part["observations"] >= 0).all() and (part["tail_observations"] >= 0).all() for part in found[1])


def test_a_step_outside_the_collector_after_a_failed_call_writes_to_no_row() -> None:
    vec = make("Portfolio-v0", "same_step")
    actions = [vec.batch_action_space.sample(), vec.batch_action_space.sample(), np.full((3, 6), 7, np.float32)]
    collector = Collector(vec, lambda observations: actions.pop(0), fragment_length=4, share_observations=True)
    with pytest.raises(sekai.InvalidAction):
        collector.collect()
    seen = vec.step(vec.batch_action_space.sample()).observations
    then = map_arrays(np.copy, seen)
    actions += [vec.batch_action_space.sample() for _ in range(2)]
    fragment = collector.collect()
    assert_equal(seen, then)
    for name, column in fragment.observations.items():
        assert not np.shares_memory(column, seen[name])
    vec.close()


def test_a_reset_in_between_is_the_same() -> None:
    found = []
    for share in (False, True):
        calls = iter(range(99))

        def policy(observations: Any, calls: Any = calls) -> Any:
            if next(calls) in (2, 7):
                raise RuntimeError("not now")
            return zeros(observations)

        collector = Collector(Rowwise(2, [9, 2]), policy, fragment_length=4, share_observations=share)
        kept = []
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not now"):
                collector.collect()
            collector.reset()
            kept.append(collector.collect())
        found.append(tuple(contents(fragment) for fragment in kept))
    assert_equal(*found)


def test_lost_workers_and_failing_sub_environments_are_the_same() -> None:
    found = []
    for share in (False, True):
        vec = sekai.SyncVecEnv([lambda: Flaky(0, 9, 99), lambda: Flaky(1, 9, 3)])
        collector = Collector(vec, CodedPolicy(), fragment_length=5, values=True, share_observations=share)
        with pytest.raises(ValueError, match="went boom"):
            collector.collect()
        found.append(contents(collector.collect()))
    assert_equal(*found)


@pytest.mark.parametrize("share", [None, False, True])
@pytest.mark.parametrize("backend", ["native", "sync"])
def test_by_default_rows_of_native_environments_are_shared(backend: str, share: bool | None) -> None:
    given: list[Any] = []

    def policy(observations: Any) -> Any:
        given.append(observations)
        return zeros(observations)

    vec = Rowwise(2, 3) if backend == "native" else sekai.SyncVecEnv([lambda: CodedEnv(0, 3)] * 2)
    fragment = Collector(vec, policy, fragment_length=4, share_observations=share).collect()
    shares = backend == "native" if share is None else share
    for t, observations in enumerate(given):
        assert np.shares_memory(observations, fragment.observations[t]) == shares
        assert observations.flags.writeable != shares


def test_what_cannot_be_shared_is_refused() -> None:
    sync = sekai.SyncVecEnv([lambda: CodedEnv(0, 3)])
    with pytest.raises(ValueError, match="share_observations is True, and min_slots was given"):
        Collector(sync, zeros, fragment_length=1, min_slots=1, share_observations=True)
    with pytest.raises(ValueError, match=r"'name': Text.* have no fixed size"):
        Collector(sekai.SyncVecEnv([Structured]), zeros, fragment_length=1, share_observations=True)
