"""`get_state` and `set_state` of the finance environments: what is saved goes on as if nothing had happened."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest

import sekai
from sekai.envs import finance
from sekai.finance import (
    DifferentialSharpe,
    DrawdownPenalty,
    EpisodeSampler,
    FixedStart,
    MarketData,
    RandomStart,
    SequentialStart,
)
from tests.envs.finance import portfolio_samples, samples

N, LENGTH, CALLS = 4, 7, 30
MODES = ("same_step", "next_step", "disabled")
DATES = np.datetime64("2020-01-01") + np.arange(len(samples.HISTORY))

#: name -> (single class, native class, function that makes new arguments)
CASES: dict[str, tuple[Any, Any, Callable[[], dict[str, Any]]]] = {
    "trading, simulated": (
        finance.TradingEnv,
        finance.TradingVecEnv,
        lambda: {"episode_length": LENGTH, "lookback": 3, "sigma": 0.5},
    ),
    "trading, random windows": (
        finance.TradingEnv,
        finance.TradingVecEnv,
        lambda: {"data": MarketData(samples.HISTORY, DATES), "episode_length": LENGTH, "lookback": 3},
    ),
    "trading, windows in turn": (
        finance.TradingEnv,
        finance.TradingVecEnv,
        lambda: {
            "prices": samples.HISTORY,
            "episode_length": LENGTH,
            "lookback": 3,
            "sampler": SequentialStart(stride=3),
            "rebalance": "on_change",
            "borrow_rate": 0.1,
            "reward": DifferentialSharpe(0.3),
        },
    ),
    "portfolio, simulated": (
        finance.PortfolioEnv,
        finance.PortfolioVecEnv,
        lambda: {"n_assets": 3, "episode_length": LENGTH, "lookback": 3, "corr": 0.3},
    ),
    "portfolio, fixed windows": (
        finance.PortfolioEnv,
        finance.PortfolioVecEnv,
        lambda: {
            "prices": portfolio_samples.HISTORY,
            "episode_length": LENGTH,
            "lookback": 3,
            "allow_short": True,
            "sampler": FixedStart([5, 2, 9]),
            "transaction_cost": [0.001, 0.002, 0.003],
            "reward": DrawdownPenalty(2.0),
        },
    ),
    "market making": (
        finance.MarketMakingEnv,
        finance.MarketMakingVecEnv,
        lambda: {"n_steps": LENGTH, "terminal_penalty": 0.1},
    ),
    "execution": (
        finance.OptimalExecutionEnv,
        finance.OptimalExecutionVecEnv,
        lambda: {"n_steps": LENGTH, "max_participation": 0.5, "volume": np.linspace(1e5, 5e5, LENGTH)},
    ),
}
MOMENTS = ("before the first reset", "after a reset", "within an episode", "after the end", "after a partial reset")
SINGLE_MOMENTS = ("before the first reset", "after a reset", "within an episode", "after the end", "second episode")

each_case = pytest.mark.parametrize("case", CASES)
each_mode = pytest.mark.parametrize("mode", MODES)


def native(case: str, **arguments: Any) -> Any:
    _, cls, make = CASES[case]
    return cls(N, **{**make(), **arguments})


def single(case: str, **arguments: Any) -> Any:
    cls, _, make = CASES[case]
    return cls(**{**make(), **arguments})


def through_a_file(state: dict[str, Any]) -> Any:
    """The state after it was written and read without pickle."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return np.load(file, allow_pickle=False)


def plain(value: Any) -> Any:
    """`value` as something that `==` compares to the bit, types included."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}, list(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    return type(value), value.hex() if isinstance(value, float) else value


def row(result: Any) -> Any:
    """Everything in a result of a native environment."""
    infos = [dict(info) for info in result.infos]
    if len(result) == 2:
        return plain([result.observations, infos])
    flags = [result.terminated, result.truncated, result.kind, result.ended]
    return plain([result.observations, result.rewards, *flags, infos])


def actions_of(space: Any, count: int, seed: int) -> list[Any]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def go_on(vec: Any, *, seed: Any = None) -> list[Any]:
    """Rows of `CALLS` calls; slots that only an explicit reset revives get one now and then."""
    rows = []
    if (vec.phase == 0).any():
        rows.append(row(vec.reset(seed=seed)))
    for call, actions in enumerate(actions_of(vec.batch_action_space, CALLS, 7)):
        if vec.autoreset.value == "disabled" and call % 4 == 3 and vec.frozen.any():
            rows.append(row(vec.reset(mask=vec.frozen.copy())))
        rows.append(row(vec.step(actions)))
    return rows


def bring_to(vec: Any, moment: str) -> Any:
    """Play up to a moment; slots 1 and 2 are 2 steps behind from "after the end" on."""
    if moment == "before the first reset":
        assert vec.rng is not None  # made from entropy: what comes is settled, and known to nobody
        return vec
    vec.reset(seed=3)
    moves = iter(actions_of(vec.batch_action_space, 40, 5))
    steps = {"after a reset": 0, "within an episode": 3}.get(moment, 2)
    for _ in range(steps):
        vec.step(next(moves))
    if moment in ("after the end", "after a partial reset"):
        vec.reset(mask=np.array([False, True, True, False]))
    if moment == "after the end":
        while not vec.step(next(moves)).ended.any():
            pass
        if vec.autoreset.value != "same_step":
            assert vec.frozen.any() and not vec.frozen.all()
    return vec


@each_case
@each_mode
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_native_environment_goes_on_to_the_bit_from_a_file(case: str, mode: str, moment: str) -> None:
    vec = bring_to(native(case, autoreset=mode), moment)
    state = vec.get_state()
    file = through_a_file(state)
    other = native(case, autoreset=mode)
    other.set_state(file)
    assert plain(other.get_state()) == plain(state)
    assert go_on(other) == go_on(vec)
    assert plain(other.get_state()) == plain(vec.get_state())  # all that was to come as well


@each_case
def test_a_state_may_be_taken_over_in_the_middle_of_something_else(case: str) -> None:
    vec = bring_to(native(case, autoreset="next_step"), "after the end")
    other = bring_to(native(case, autoreset="next_step"), "within an episode")
    other.set_state(vec.get_state())
    assert go_on(other) == go_on(vec)


def play_single(env: Any, count: int, seed: int) -> list[Any]:
    """Rows of `count` steps, with a reset wherever one is due."""
    rows = []
    for action in actions_of(env.action_space, count, seed):
        if not env._live:
            rows.append(plain(list(env.reset())))
        rows.append(plain(list(env.step(action))))
    return rows


@each_case
@pytest.mark.parametrize("moment", SINGLE_MOMENTS)
def test_a_single_environment_goes_on_to_the_bit_from_a_file(case: str, moment: str) -> None:
    env, other = single(case), single(case)
    if moment == "before the first reset":
        assert env.rng is not None
    else:
        env.reset(seed=3)
        play_single(env, {"after a reset": 0, "within an episode": 3}.get(moment, LENGTH), 5)
        if moment == "after the end":
            while env._live:
                play_single(env, 1, 6)
        if moment == "second episode":
            env.reset()
            play_single(env, 2, 6)
    state = env.get_state()
    other.set_state(through_a_file(state))
    assert plain(other.get_state()) == plain(state)
    assert other.elapsed_steps == env.elapsed_steps
    assert play_single(other, CALLS, 7) == play_single(env, CALLS, 7)


def test_a_single_environment_that_had_ended_still_wants_a_reset() -> None:
    env, other = single("market making"), single("market making")
    env.reset(seed=0)
    play_single(env, LENGTH, 0)
    other.reset(seed=0)
    other.set_state(env.get_state())
    with pytest.raises(sekai.errors.ResetRequired):
        other.step([1.0, 1.0])


# ---- negative controls ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("trading, simulated", "rng.state.state"),
        ("trading, simulated", "env.slots.state"),
        ("trading, simulated", "env.slots.returns"),
        ("trading, random windows", "rng.state.state"),
        ("trading, windows in turn", "env.samplers.spawned"),
        ("trading, windows in turn", "env.slots.clock"),
        ("trading, windows in turn", "env.slots.reward.mean"),
        ("trading, windows in turn", "env.slots.reward.mean_square"),
        ("portfolio, simulated", "env.slots.weights"),
        ("portfolio, simulated", "env.slots.equity"),
        ("portfolio, fixed windows", "env.samplers.spawned"),
        ("portfolio, fixed windows", "env.slots.reward.drawdown"),
        ("market making", "env.slots.state"),
        ("market making", "vec.elapsed_steps"),
        ("execution", "env.slots.clock"),
        ("execution", "env.parameters.sigma"),
        ("execution", "vec.phase"),
    ],
)
def test_no_part_of_the_state_is_idle(case: str, name: str) -> None:
    # the same state, but for one array that is that of another moment, leads somewhere else
    vec = bring_to(native(case, autoreset="next_step", max_episode_steps=6), "after the end")
    if name.startswith("env.parameters"):
        vec.set_attr("sigma", 0.1)
    fresh = native(case, autoreset="next_step", max_episode_steps=6)
    fresh.reset(seed=8)
    state = vec.get_state()
    changed = {**state, name: fresh.get_state()[name]}
    assert plain(changed[name]) != plain(state[name])
    other = native(case, autoreset="next_step", max_episode_steps=6)
    other.set_state(changed)
    assert go_on(other) != go_on(vec)


@each_case
def test_parameters_set_since_are_part_of_it(case: str) -> None:
    vec, env = native(case), single(case)
    for one in (vec, env):
        one.reset(seed=1)
        one.set_attr("sigma", 0.3)
        one.set_attr("shock_clip", 1.5)
    template, other = native(case), single(case)
    template.set_state(vec.get_state())
    other.set_state(env.get_state())
    for one in (template.template, other):
        assert (one.sigma, one.shock_clip) == (0.3, 1.5)
    env.set_attr("shock_clip", None)
    other.set_state(env.get_state())
    assert other.shock_clip is None


@each_case
def test_a_state_shares_no_memory_with_either_side(case: str) -> None:
    vec = native(case)
    vec.reset(seed=1)
    state = vec.get_state()
    before = plain(state)
    vec.step(actions_of(vec.batch_action_space, 1, 0)[0])
    assert plain(state) == before
    other = native(case)
    other.set_state(state)
    go_on(other)
    assert plain(state) == before


def test_simulated_prices_are_part_of_it() -> None:
    for make in (native, single):
        env, other = make("trading, simulated"), make("trading, simulated")
        env.reset(seed=1)
        other.set_state(env.get_state())
        assert np.array_equal(other.price_history, env.price_history) and (env.price_history > 0).all()


@each_case
def test_observations_of_an_interrupted_step_do_not_outlive_it(case: str) -> None:
    vec, other = native(case), native(case)
    vec.reset(seed=1)
    other.reset(seed=2)
    other._count_steps = None  # fails after the dynamics have moved, before their observations are taken
    with pytest.raises(TypeError):
        other.step(actions_of(other.batch_action_space, 1, 0)[0])
    del other._count_steps
    other.set_state(vec.get_state())
    nobody = np.zeros(N, bool)
    assert row(other.reset(mask=nobody)) == row(vec.reset(mask=nobody))


def test_a_history_is_not_part_of_the_state() -> None:
    state = native("trading, random windows").get_state()
    assert sum(array.nbytes for array in state.values()) < 4000


# ---- samplers -------------------------------------------------------------------------------------


class Stateless(EpisodeSampler):
    """Always the second window."""

    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        return 1


class Counting(EpisodeSampler):
    """Every third window; an attribute of its own, and a generator of its own that it never uses."""

    def __init__(self) -> None:
        self.count, self.spare = 0, np.random.default_rng(0)

    def sample(self, rng: np.random.Generator, num_windows: int, episode_length: int) -> int:
        self.count += 3
        return self.count

    def spawn(self) -> Self:
        return type(self)()


class Saved(Counting):
    """The same, with the two methods."""

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class Failing(Saved):
    """One that does not take its state back when it is that of a spawned one."""

    def set_state(self, state: dict[str, Any]) -> None:
        if state["count"] == 6:
            raise RuntimeError("no")
        self.count = state["count"]


TURNS = "trading, windows in turn"


@pytest.mark.parametrize("sampler", [Stateless, Saved, lambda: RandomStart(3, 9), SequentialStart])
def test_samplers_that_are_plain_or_save_themselves_go_on(sampler: Any) -> None:
    vec, other = native(TURNS, sampler=sampler()), native(TURNS, sampler=sampler())
    bring_to(vec, "after a partial reset")
    other.set_state(through_a_file(vec.get_state()))
    assert go_on(other) == go_on(vec)
    env, twin = single(TURNS, sampler=sampler()), single(TURNS, sampler=sampler())
    env.reset(seed=0)
    twin.set_state(through_a_file(env.get_state()))
    assert play_single(twin, CALLS, 1) == play_single(env, CALLS, 1)


def test_bounds_of_a_curriculum_are_part_of_it_and_the_shared_sampler_stays_the_same_object() -> None:
    vec = native(TURNS, sampler=RandomStart(0, 5))
    vec.reset(seed=0)
    vec.template.sampler.high = 50
    mine = RandomStart(0, 5)
    other = native(TURNS, sampler=mine)
    other.set_state(vec.get_state())
    assert other.template.sampler is mine and mine.high == 50
    mine.high = 2  # still reaches every slot
    other.reset(seed=0)
    assert set(other.timestamp.tolist()) <= {3, 4}


@pytest.mark.parametrize("make", [native, single])
def test_a_sampler_with_a_state_of_its_own_that_it_cannot_save_is_named(make: Any) -> None:
    env = make(TURNS, sampler=Counting())
    with pytest.raises(TypeError, match=r"let Counting implement get_state\(\) and set_state\(state\) with plain"):
        env.get_state()


def test_samplers_of_slots_that_another_has_replaced_are_no_part_of_it() -> None:
    vec, other = native(TURNS), native(TURNS)
    vec.reset(seed=0)
    vec.set_attr("sampler", SequentialStart(start=4, stride=11))  # from the next episodes on
    other.set_state(vec.get_state())
    rows = go_on(vec)
    assert go_on(other) == rows
    unchanged = native(TURNS)
    unchanged.reset(seed=0)
    assert go_on(unchanged) != rows


def test_a_sampler_of_another_class_is_refused() -> None:
    state = native(TURNS).get_state()
    with pytest.raises(ValueError, match=r"state\['env.samplers.class'\] is 'SequentialStart'; expected 'RandomStart'"):
        native(TURNS, sampler="random").set_state(state)


def test_a_sampler_that_fails_leaves_everything_as_it_was() -> None:
    vec = native(TURNS, sampler=Failing())
    bring_to(vec, "after a partial reset")  # two slots have counted to 6
    vec.template.sampler.count = 3
    vec.set_attr("sigma", 0.7)
    state = vec.get_state()
    other = bring_to(native(TURNS, sampler=Failing()), "within an episode")
    before = plain(other.get_state())
    with pytest.raises(RuntimeError, match="no"):
        other.set_state(state)
    assert plain(other.get_state()) == before


# ---- refusals -------------------------------------------------------------------------------------


def refused(target: Any, state: Any, error: type[Exception], text: str) -> None:
    """The state is refused with these words, and nothing has changed."""
    before = plain(target.get_state())
    with pytest.raises(error) as caught:
        target.set_state(state)
    assert text in str(caught.value), str(caught.value)
    assert plain(target.get_state()) == before


@pytest.mark.parametrize(
    ("case", "arguments", "text"),
    [
        ("trading, simulated", {"lookback": 4}, "state['env.fixed.lookback'] is 3; expected 4, that of TradingEnv"),
        ("trading, simulated", {"episode_length": 9}, "state['env.fixed.episode_length'] is 7; expected 9"),
        ("trading, simulated", {"positions": (0.0, 1.0)}, "positions has 3 entries; expected 2"),
        ("trading, simulated", {"prices": samples.HISTORY}, "state['env.fixed.history'] is 'simulated'; expected '"),
        ("trading, windows in turn", {"prices": samples.HISTORY * 2}, "state['env.fixed.history'] is '"),
        ("portfolio, simulated", {"n_assets": 4}, "state['env.fixed.n_assets'] is 3; expected 4"),
        ("portfolio, simulated", {"allow_short": True}, "state['env.fixed.allow_short'] is False; expected True"),
        ("market making", {"n_steps": 8}, "state['env.fixed.n_steps'] is 7; expected 8"),
        ("market making", {"max_offset": 6.0}, "state['env.fixed.max_offset'] is 5.0; expected 6.0"),
        ("market making", {"max_inventory": 60}, "state['env.fixed.max_inventory'] is 50; expected 60"),
    ],
)
def test_another_fixed_argument_is_refused(case: str, arguments: dict[str, Any], text: str) -> None:
    for make in (native, single):
        refused(make(case, **arguments), make(case).get_state(), ValueError, text)


def test_a_history_with_other_dates_is_refused() -> None:
    state = native("trading, random windows").get_state()
    later = native("trading, random windows", data=MarketData(samples.HISTORY, DATES + 1))
    refused(later, state, ValueError, "state['env.fixed.history'] is '")


def test_a_state_of_another_class_is_refused() -> None:
    state = native("execution").get_state()
    refused(native("market making"), state, ValueError, "state['class'] is 'OptimalExecutionVecEnv'; expected 'Mark")
    refused(single("market making"), state, ValueError, "state['class'] is 'OptimalExecutionVecEnv'; expected 'Mark")
    refused(native("execution"), single("execution").get_state(), ValueError, "state['class'] is 'OptimalExecutionEnv'")


@each_case
def test_arrays_of_other_names_shapes_and_types_are_refused(case: str) -> None:
    for make in (native, single):
        target = make(case)
        target.reset(seed=0)
        state = target.get_state()
        clock = state["env.slots.clock"]
        for name in state:
            if not name.startswith(("env.parameters", "rng")):
                refused(target, {key: state[key] for key in state if key != name}, ValueError, f"'{name}'")
        for unknown in ("env.slots.more", "env.more", "more", "rng.more", "env.parameters.more"):
            refused(target, {**state, unknown: clock}, ValueError, "more")
        refused(target, {**state, "env.slots.clock": clock[..., None]}, ValueError, "['env.slots.clock'] has shape")
        refused(target, {**state, "env.slots.clock": clock * 1.0}, ValueError, "and dtype float64; expected shape")
        refused(target, {**state, "env.slots.clock": clock - 99}, ValueError, "['env.slots.clock']")
        refused(target, {**state, "env.slots.clock": clock.tolist()}, TypeError, "expected a plain array")
        refused(target, {**state, "env.parameters.sigma": np.array(-1.0)}, ValueError, "sigma")
        lacking = {key: state[key] for key in state if key != "env.parameters.sigma"}
        refused(target, lacking, TypeError, "sigma")
        refused(target, list(state), TypeError, "state is of type list; expected what get_state()")


@pytest.mark.parametrize(
    ("case", "place", "value"),
    [
        ("trading, windows in turn", 0, 10**9),
        ("trading, windows in turn", 0, 2),
        ("trading, windows in turn", 1, len(samples.HISTORY)),
        ("trading, simulated", 2, 6),
        ("portfolio, fixed windows", 1, len(portfolio_samples.HISTORY)),
        ("portfolio, simulated", 2, 6),
        ("portfolio, simulated", 2, -1),
    ],
)
def test_a_clock_that_points_beyond_the_arrays_is_refused(case: str, place: int, value: int) -> None:
    target = native(case)
    target.reset(seed=0)
    state = target.get_state()
    clock = state["env.slots.clock"].copy()
    clock[place, 2] = value
    refused(target, {**state, "env.slots.clock": clock}, ValueError, "in slot 2")


@pytest.mark.parametrize("text", ["", "[]", '{"low": 0}', '{"low": 0, "high": null, "more": 1}', "{"])
def test_text_that_is_no_state_of_the_sampler_is_refused(text: str) -> None:
    target = native("trading, random windows")
    with_samplers = {**target.get_state(), "env.samplers.state": np.array(text)}
    refused(target, with_samplers, ValueError, "state of")


def test_samplers_for_another_number_of_slots_are_refused() -> None:
    target = native(TURNS)
    target.reset(seed=0)
    state = target.get_state()
    spawned = {**state, "env.samplers.spawned": state["env.samplers.spawned"][:2]}
    refused(target, spawned, ValueError, "The state has samplers for 2 slots; expected none, or 4.")


@pytest.mark.parametrize("bits", [np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_every_generator_of_numpy_goes_on(bits: Any) -> None:
    env, other = single("trading, simulated"), single("trading, simulated")
    env.reset(seed=np.random.Generator(bits(3)))
    env.rng.integers(10, dtype=np.int32)  # half a word is left over
    other.set_state(through_a_file(env.get_state()))
    assert type(other.rng.bit_generator) is bits and other.rng is not env.rng
    assert play_single(other, CALLS, 1) == play_single(env, CALLS, 1)
    assert other.rng.spawn(2)[1].random() == env.rng.spawn(2)[1].random()


def test_a_generator_of_another_kind_is_refused() -> None:
    class Own(np.random.PCG64):
        pass

    env = single("trading, simulated")
    env.reset(seed=np.random.Generator(Own(3)))
    with pytest.raises(TypeError, match=r"bits come from Own, seeded by SeedSequence; expected one of PCG64, "):
        env.get_state()
