"""`get_state` and `set_state` of `NativeVecEnv`: the base class's own part, and the hooks of a subclass."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.errors import ResetRequired, VecEnvBusy, VecEnvClosed
from tests.contract.envs import MODES

N = 3
SPACE = sekai.Dict({"at": sekai.Box(-1e6, 1e6, (2,), np.float64), "turn": sekai.Discrete(1000)})
ACTIONS = sekai.Tuple((sekai.Discrete(5), sekai.Box(-1.0, 1.0, (1,))))


class Walk(sekai.NativeVecEnv):
    """Points that walk at random: slot `i` ends after `3 + i` steps. Dict observations, tuple actions, infos."""

    def __init__(self, n: int = N, **kwargs: Any) -> None:
        super().__init__(n, SPACE, ACTIONS, **kwargs)
        self.x, self.t = np.zeros((n, 2)), np.zeros(n, np.int64)
        self.options: list[Any] = []

    def _reset_envs(self, indices: Any, options: Any) -> None:
        self.options.extend(options)
        self.t[indices] = [(given or {}).get("at", 0) for given in options]
        self.x[indices] = self.rng.normal(size=(len(indices), 2))

    def _reset_infos(self, indices: Any) -> Any:
        return {"began": self.x[indices, 0]}

    def _observe(self) -> Any:
        return {"at": self.x.copy(), "turn": self.t.copy()}

    def _step(self, actions: Any) -> Any:
        move = (actions[0] + actions[1][:, 0] + self.rng.normal(size=self.num_envs)) * ~self.frozen
        self.x += move[:, None]
        self.t += ~self.frozen
        ends = self.t >= 3 + np.arange(self.num_envs)
        return (
            self.x[:, 0].copy(),
            ends,
            np.zeros(self.num_envs, bool),
            {"move": move, "total": np.full(N, actions[0].sum())},
        )

    def _get_state(self) -> Any:
        return {"x": self.x, "t": self.t}

    def _set_state(self, arrays: Any) -> None:
        self.x, self.t = arrays["x"], arrays["t"]


class Hookless(Walk):
    """The same without one hook or the other."""

    _get_state = sekai.NativeVecEnv._get_state
    _set_state = sekai.NativeVecEnv._set_state


class Halfway(Walk):
    _set_state = sekai.NativeVecEnv._set_state


def moves(count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [(rng.integers(5, size=N), rng.uniform(-1, 1, (N, 1)).astype(np.float32)) for _ in range(count)]


def plain(value: Any) -> Any:
    """`value` as something that `==` compares to the bit, types included."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}, list(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return type(value), value.hex() if isinstance(value, float) else value


def row(result: Any) -> Any:
    infos = [dict(info) for info in result.infos]
    if len(result) == 2:
        return plain([result.observations, infos])
    flags = [result.terminated, result.truncated, result.kind, result.ended]
    return plain([result.observations, result.rewards, *flags, infos])


def go_on(vec: Walk, calls: int = 30) -> list[Any]:
    rows = []
    if (vec.phase == 0).any():
        rows.append(row(vec.reset()))
    for call, actions in enumerate(moves(calls, 7)):
        if call % 5 == 4 and vec.frozen.any():
            rows.append(row(vec.reset(mask=vec.frozen.copy())))
        rows.append(row(vec.step(actions)))
    return rows


def through_a_file(state: dict[str, Any]) -> Any:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return np.load(file, allow_pickle=False)


def new(vec: Walk) -> None:
    assert vec.rng is not None


def reset(vec: Walk) -> None:
    vec.reset(seed=1)


def played(steps: int) -> Callable[[Walk], None]:
    def play(vec: Walk) -> None:
        vec.reset(seed=1)
        for actions in moves(steps, 2):
            vec.step(actions)

    play.__name__ = f"{steps} steps"
    return play


def partly_reset(vec: Walk) -> None:
    played(2)(vec)
    vec.reset(mask=np.array([True, False, False]))


def lost(vec: Walk) -> None:
    played(2)(vec)
    vec.lose_rows(np.array([False, True, False]))


def interrupted(vec: Walk) -> None:
    played(2)(vec)
    observe = vec._observe
    vec._observe = lambda: 1 / 0  # type: ignore[method-assign]  # put back below
    with pytest.raises(ZeroDivisionError):
        vec.step(moves(1, 3)[0])
    vec._observe = observe  # type: ignore[method-assign]


MOMENTS = [new, reset, played(2), played(3), played(4), played(5), partly_reset, lost, interrupted]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [None, 4])
@pytest.mark.parametrize("bring", MOMENTS, ids=lambda function: function.__name__)
def test_it_goes_on_to_the_bit_from_a_file(mode: str, limit: int | None, bring: Callable[[Walk], None]) -> None:
    vec = Walk(autoreset=mode, max_episode_steps=limit)
    bring(vec)
    state = vec.get_state()
    other = Walk(autoreset=mode, max_episode_steps=limit)
    other.set_state(through_a_file(state))
    assert plain(other.get_state()) == plain(state)
    assert other.lost_rows.tolist() == vec.lost_rows.tolist()
    assert go_on(other) == go_on(vec)
    assert plain(other.get_state()) == plain(vec.get_state())


def test_frozen_rows_and_their_flags_and_actions_are_part_of_it() -> None:
    vec, other = Walk(autoreset=False), Walk(autoreset=False)
    played(4)(vec)  # slots 0 and 1 have ended
    other.set_state(vec.get_state())
    result = other.step(moves(1, 9)[0])
    assert result.kind.tolist() == [RowKind.FROZEN, RowKind.FROZEN, RowKind.TERMINATED]
    assert result.terminated.all()
    assert result.observations["turn"].tolist() == [3, 4, 5]


def test_the_rows_of_an_interrupted_step_are_lost_after_it() -> None:
    vec = Walk()
    interrupted(vec)
    assert vec.get_state()["vec.lost"].all()


def test_lost_rows_are_marked_after_it_too() -> None:
    vec, other = Walk(), Walk()
    lost(vec)
    other.set_state(vec.get_state())
    assert other.step(moves(1, 0)[0]).kind.tolist() == [RowKind.TERMINATED, RowKind.LOST, RowKind.STEP]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rng.state.state", lambda array: array ^ 1),
        ("rng.state.inc", lambda array: array ^ 2),
        ("env.x", lambda array: array + 1),
        ("env.t", lambda array: array - 1),
        ("vec.elapsed_steps", lambda array: array - 1),
        ("vec.flags", np.logical_not),
        ("vec.lost", np.logical_not),
        ("vec.phase", np.ones_like),
        ("vec.frozen", np.logical_not),
        ("vec.max_episode_steps", lambda array: array - 1),
        ("held.0", lambda array: array + 1),
        ("held.1", lambda array: array + 1),
        ("actions.0", lambda array: array[::-1] + 1),
    ],
)
def test_no_part_of_the_state_is_idle(name: str, change: Callable[[Any], Any]) -> None:
    vec, other = (Walk(autoreset=False, max_episode_steps=5) for _ in range(2))
    played(4)(vec)
    state = vec.get_state()
    other.set_state({**state, name: np.asarray(change(state[name]), state[name].dtype)})
    assert go_on(other) != go_on(vec)


def test_a_slot_that_never_began_still_wants_a_reset() -> None:
    vec, other = Walk(), Walk()
    reset(other)
    other.set_state(vec.get_state())
    with pytest.raises(ResetRequired):
        other.step(moves(1, 0)[0])


def test_what_the_generator_spawns_goes_on_as_well() -> None:
    vec, other = Walk(), Walk()
    vec.reset(seed=[3, 2**70, 5])
    vec.rng.spawn(2)
    other.set_state(vec.get_state())
    ours, theirs = (each.rng.spawn(2)[1].spawn(1)[0].random() for each in (vec, other))
    assert ours == theirs


# ---- options --------------------------------------------------------------------------------------


def asked(slot: int, episode: int) -> Any:
    return {"at": (slot + episode) % 3} if episode % 2 else None


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_options_prepared_for_the_next_episodes_are_part_of_it(mode: str) -> None:
    vec, other = (Walk(autoreset=mode, autoreset_options=asked) for _ in range(2))
    played(4)(vec)
    other.set_state(through_a_file(vec.get_state()))
    vec.options.clear()
    assert go_on(other) == go_on(vec)
    assert other.options == vec.options and any(vec.options)


def test_options_that_nobody_has_been_asked_for_yet_are_asked_for() -> None:
    fails = [False]

    def maybe(slot: int, episode: int) -> Any:
        if fails[0] and slot == 1:
            raise RuntimeError("not now")
        return {"at": slot}

    vec, other = (Walk(autoreset_options=maybe) for _ in range(2))
    fails[0] = True
    with pytest.raises(RuntimeError, match="not now"):
        vec.reset(seed=0)
    state = vec.get_state()
    assert state["vec.unasked"].tolist() == [1, 2]
    other.set_state(state)
    fails[0] = False
    assert go_on(other) == go_on(vec)


@pytest.mark.parametrize(
    "given", [{"at": (1, 2)}, {"at": np.zeros(2)}, {"at": np.datetime64("2020-01-01")}, {"at": {1: 2}}, {"f": len}]
)
def test_options_that_are_not_plain_are_named(given: Any) -> None:
    class Any_(Walk):
        def _reset_envs(self, indices: Any, options: Any) -> None:
            self.t[indices] = 0

    vec = Any_(autoreset_options=lambda slot, episode: given if slot == 2 else {"at": np.int64(1)})
    vec.reset(seed=0)
    with pytest.raises(TypeError, match=r"^What autoreset_options gave for sub-env 2 is .*; expected None, bools"):
        vec.get_state()


def test_options_prepared_in_the_environment_that_takes_a_state_are_forgotten() -> None:
    given: list[Any] = [{"at": 1}]
    vec, other = (Walk(autoreset_options=lambda slot, episode: given[0]) for _ in range(2))
    reset(vec)
    given[0] = {"at": 0, "tuple": ()}  # not plain
    reset(other)
    given[0] = None
    other.set_state(vec.get_state())
    assert go_on(other) == go_on(vec)


# ---- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Hookless, Halfway])
def test_a_class_without_the_hooks_says_which_to_write(cls: Any) -> None:
    vec = cls()
    for call in (vec.get_state, lambda: vec.set_state(Walk().get_state())):
        with pytest.raises(
            NotImplementedError,
            match=rf"^{cls.__name__} has state that only it knows: implement _get_state\(\), which returns a dict of "
            r"arrays, and _set_state\(arrays\), which takes them over",
        ):
            call()


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, TypeError, r"^Odd\._get_state\(\) returned None; expected a dict of arrays\."),
        ({"x": object()}, TypeError, r"^The state holds 'x', .* of dtype object; expected an array of numbers, bools,"),
        ({"x": np.array([None])}, TypeError, r"of dtype object; expected an array"),
    ],
)
def test_a_hook_that_returns_no_plain_arrays_is_named(given: Any, error: type[Exception], text: str) -> None:
    class Odd(Walk):
        def _get_state(self) -> Any:
            return given

    with pytest.raises(error, match=text):
        Odd().get_state()


def refused(vec: Walk, state: Any, error: type[Exception], text: str) -> None:
    before = plain(vec.get_state())
    with pytest.raises(error) as caught:
        vec.set_state(state)
    assert text in str(caught.value), str(caught.value)
    assert plain(vec.get_state()) == before


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Walk(N + 1), "state['vec.num_envs'] is 4; expected 3, that of Walk(num_envs=3): a state fits"),
        (lambda: Walk(autoreset=False), "state['vec.autoreset'] is 'disabled'; expected 'same_step'"),
        (lambda: Walk(autoreset_options=asked), "state['vec.autoreset_options'] is True; expected False"),
        (lambda: type("Run", (Walk,), {})(), "state['class'] is 'Run'; expected 'Walk'"),
    ],
)
def test_a_state_of_another_environment_is_refused(make: Callable[[], Walk], text: str) -> None:
    vec, other = Walk(), make()
    reset(vec)
    other.reset(seed=2)
    refused(vec, other.get_state(), ValueError, text)


def test_a_state_that_does_not_fit_is_refused_and_nothing_changes() -> None:
    vec, source = Walk(autoreset="next_step"), Walk(autoreset="next_step")
    reset(vec)
    played(4)(source)
    state = source.get_state()
    for name in state:
        text = "The state has slots that wait" if name == "held" else f"'{name}'"
        refused(vec, {key: state[key] for key in state if key != name}, ValueError, text)
    for name in ("more", "vec.more", "rng.more", "held.2", "actions.x", "env.more"):
        refused(vec, {**state, name: np.zeros(N)}, ValueError, f"has the unknown '{name}'")
    for name, array in state.items():
        if name not in ("class", "vec.num_envs", "vec.autoreset", "vec.autoreset_options", "rng.bit_generator"):
            refused(vec, {**state, name: array[None]}, ValueError, f"state['{name}'] has shape")
            odd = array.astype(np.complex64) if array.dtype.kind != "U" else np.zeros(array.shape)
            refused(vec, {**state, name: odd}, ValueError, f"state['{name}'] has shape")
    refused(vec, {**state, "rng.bit_generator": np.array("Dice")}, ValueError, "is 'Dice'; expected one of PCG64,")
    refused(vec, {**state, "vec.phase": np.full(N, 4, np.int8)}, ValueError, "expected numbers from 0 to 3")
    refused(vec, {**state, "vec.unasked": np.array([N])}, ValueError, "expected slots in [0, 3)")
    refused(vec, {**state, "vec.max_episode_steps": np.array(0)}, ValueError, "is 0; expected -1 for none")
    refused(vec, {**state, "vec.next_options": np.array(["null", "[]", "null"])}, ValueError, "_options'][1] is []")
    refused(vec, {**state, "vec.next_options": np.array(["null", "{", "null"])}, ValueError, "_options'][1] is '{'")
    without = {name: array for name, array in state.items() if not name.startswith("held.")}
    refused(vec, without, ValueError, "The state has slots that wait for a reset, and no 'held.*'")
    refused(vec, {**state, "env.x": np.array([None])}, TypeError, "state['env.x'] is array([None]")
    refused(vec, {**state, "class": np.array(3)}, ValueError, "state['class'] is 3; expected 'Walk'")
    refused(vec, {**state, "vec.num_envs": np.array("3")}, ValueError, "state['vec.num_envs'] is '3'; expected 3")
    refused(vec, 3, TypeError, "state is of type int; expected what get_state() or np.load() returned.")


def test_a_hook_that_refuses_leaves_the_base_class_as_it_was() -> None:
    class Picky(Walk):
        def _set_state(self, arrays: Any) -> None:
            raise ValueError("not this one")

    vec, other = Picky(), Picky()
    played(4)(vec)
    reset(other)
    refused(other, vec.get_state(), ValueError, "not this one")


def test_a_batch_without_a_fixed_size_is_refused() -> None:
    class Words(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = sekai.Box(0, 1, (1,))
            self.action_space = sekai.Sequence(sekai.Discrete(3))

    vec = Words()
    vec._last_actions = [(1,), (2,), ()]
    with pytest.raises(TypeError, match=r"samples without a fixed size cannot be saved as arrays\.$"):
        vec.get_state()


def test_the_arrays_handed_to_the_hook_are_new_ones() -> None:
    vec, other = Walk(), Walk()
    reset(vec)
    state = vec.get_state()
    before = plain(state)
    other.set_state(state)
    go_on(other)
    go_on(vec)
    assert plain(state) == before


def test_a_closed_or_busy_environment_is_refused() -> None:
    vec = Walk()
    state = vec.get_state()
    vec._awaited = True
    for call in (vec.get_state, lambda: vec.set_state(state)):
        with pytest.raises(VecEnvBusy):
            call()
    vec._awaited = False
    vec.close()
    for call in (vec.get_state, lambda: vec.set_state(state)):
        with pytest.raises(VecEnvClosed):
            call()
