"""What every model promises, by the rules of `sekai.finance.models.base`."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.finance import PriceModel
from tests.finance.models.samples import DAY, MODELS

every = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
slotwise = pytest.mark.parametrize(
    "model", [m for name, m in MODELS.items() if name != "heston"], ids=[name for name in MODELS if name != "heston"]
)
BIG = np.arange(1024)


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def begun(model: PriceModel, slots: int = 6, seed: int = 7) -> tuple[dict[str, Any], np.random.Generator]:
    generator, state = rng(seed), model.new_state(slots)
    model.begin(generator, state, np.arange(slots), 3, DAY)
    return state, generator


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@every
def test_returns_are_contiguous_arrays_of_slots_bars_and_assets(model: PriceModel) -> None:
    state, generator = model.new_state(6), rng()
    assert all(len(values) == 6 and type(values) is np.ndarray for values in state.values())
    history = model.begin(generator, state, np.array([4, 1]), 30, DAY)
    step = model.advance(generator, state, np.array([4, 1]), DAY)
    assert history.shape == (2, 30, model.n_assets) and step.shape == (2, model.n_assets)
    for array in (history, step):
        assert array.dtype == np.float64 and array.flags.c_contiguous and np.isfinite(array).all()
    assert np.unique(history).size > 30  # the slots have paths of their own


@every
def test_no_slots_and_no_bars_are_fine(model: PriceModel) -> None:
    state, generator = begun(model)
    before, left = copy.deepcopy(state), generator.bit_generator.state
    nobody = np.array([], np.intp)
    assert model.begin(generator, state, nobody, 4, DAY).shape == (0, 4, model.n_assets)
    assert model.advance(generator, state, nobody, DAY).shape == (0, model.n_assets)
    assert same(state, before) and generator.bit_generator.state == left
    assert model.begin(generator, state, np.array([2]), 0, DAY).shape == (1, 0, model.n_assets)


@slotwise
def test_many_slots_at_once_are_the_same_as_one_after_the_other(model: PriceModel) -> None:
    together, apart = model.new_state(1024), model.new_state(1024)
    a, b = rng(), rng()
    starts = model.begin(a, together, BIG, 5, DAY)
    assert np.array_equal(starts, np.concatenate([model.begin(b, apart, BIG[i : i + 1], 5, DAY) for i in BIG]))
    for _ in range(2):
        steps = model.advance(a, together, BIG, DAY)
        assert np.array_equal(steps, np.concatenate([model.advance(b, apart, BIG[i : i + 1], DAY) for i in BIG]))
    assert same(together, apart) and a.bit_generator.state == b.bit_generator.state


@every
def test_order_counts_and_numbers_do_not(model: PriceModel) -> None:
    first, second = model.new_state(9), model.new_state(9)
    a = model.begin(rng(), first, np.array([0, 1, 2]), 5, DAY)
    b = model.begin(rng(), second, np.array([8, 3, 5]), 5, DAY)
    assert np.array_equal(a, b)
    assert all(np.array_equal(first[name][[0, 1, 2]], second[name][[8, 3, 5]]) for name in first)
    assert np.array_equal(
        model.advance(rng(), first, np.array([2, 0]), DAY), model.advance(rng(), second, np.array([5, 8]), DAY)
    )


@every
def test_bars_together_are_the_same_as_bar_by_bar(model: PriceModel) -> None:
    state, slot = model.new_state(3), np.array([1])
    together = model.begin(rng(), state, slot, 40, DAY)
    other, generator = model.new_state(3), rng()
    assert model.begin(generator, other, slot, 0, DAY).size == 0
    one_by_one = np.stack([model.advance(generator, other, slot, DAY) for _ in range(40)], axis=1)
    assert np.array_equal(together, one_by_one) and same(state, other)


@every
def test_other_slots_are_left_alone(model: PriceModel) -> None:
    state, generator = begun(model)
    before = copy.deepcopy(state)
    model.begin(generator, state, np.array([1, 4]), 20, DAY)  # new episodes amid the others
    begun_anew, seen = copy.deepcopy(state), {name: {values[4].item()} for name, values in state.items()}
    for _ in range(20):
        model.advance(generator, state, np.array([4]), DAY)  # 1 is frozen again
        for name, values in state.items():
            seen[name].add(values[4].item())
    for name, values in state.items():
        assert np.array_equal(np.delete(values, [1, 4]), np.delete(before[name], [1, 4]))
        assert values[1] == begun_anew[name][1] and len(seen[name]) > 1


@slotwise
def test_a_slot_that_starts_anew_moves_the_others_only_along_the_stream(model: PriceModel) -> None:
    state, generator = begun(model, 3)
    other, reference = begun(model, 3)
    model.begin(generator, state, np.array([1]), 4, DAY)
    model.begin(reference, model.new_state(1), np.array([0]), 4, DAY)  # the same draws, for somebody else
    steps, expected = (model.advance(r, s, np.arange(3), DAY) for r, s in ((generator, state), (reference, other)))
    assert np.array_equal(steps[[0, 2]], expected[[0, 2]])


@slotwise
def test_a_frozen_slot_takes_no_draws(model: PriceModel) -> None:
    state, generator = begun(model, 3)
    steps = model.advance(generator, state, np.array([0, 2]), DAY)
    two, reference = begun(model, 3)
    alone = {name: values[[0, 2]] for name, values in two.items()}
    assert np.array_equal(steps, model.advance(reference, alone, np.arange(2), DAY))
    assert generator.bit_generator.state == reference.bit_generator.state


@every
def test_what_was_saved_goes_on_to_the_bit(model: PriceModel) -> None:
    state, generator = begun(model)
    file, slots = io.BytesIO(), np.array([5, 0, 3])
    np.savez(file, allow_pickle=False, **state)
    position = copy.deepcopy(generator.bit_generator.state)
    expected = [model.advance(generator, state, slots, DAY) for _ in range(10)]
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        restored = dict(saved)
    resumed = np.random.default_rng()
    resumed.bit_generator.state = position
    again: PriceModel = pickle.loads(pickle.dumps(model))
    for step in expected:
        assert np.array_equal(step, again.advance(resumed, restored, slots, DAY))
    assert same(state, restored)


@every
def test_results_are_never_overwritten(model: PriceModel) -> None:
    state, generator, slots = model.new_state(4), rng(), np.arange(4)
    history = model.begin(generator, state, slots, 5, DAY)
    step = model.advance(generator, state, slots, DAY)
    kept = history.copy(), step.copy()
    history[:] = step[:] = 0.0  # nor does the model keep what the caller changes
    control, other = rng(), model.new_state(4)
    assert np.array_equal(model.begin(control, other, slots, 5, DAY), kept[0])
    assert np.array_equal(model.advance(control, other, slots, DAY), kept[1])
    assert np.array_equal(model.advance(control, other, slots, DAY), model.advance(generator, state, slots, DAY))


@every
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dt": 0.0}, ValueError, "dt is 0.0; expected a number above 0"),
        ({"dt": -1.0}, ValueError, "dt is -1.0"),
        ({"dt": np.nan}, ValueError, "dt is nan"),
        ({"dt": "1d"}, TypeError, "dt is '1d'"),
        ({"bars": -1}, ValueError, "bars is -1; expected an int of at least 0"),
        ({"bars": 2.0}, TypeError, "bars is 2.0"),
        ({"slots": np.ones(6, bool)}, TypeError, r"slots has dtype bool and shape \(6,\); expected indices"),
        ({"slots": np.zeros((2, 1), int)}, TypeError, r"shape \(2, 1\)"),
    ],
)
def test_a_refused_call_moves_nothing(model: PriceModel, arguments: Any, error: Any, message: str) -> None:
    state, generator = begun(model)
    before, left = copy.deepcopy(state), copy.deepcopy(generator.bit_generator.state)
    given: dict[str, Any] = {"slots": np.arange(2), "bars": 3, "dt": DAY, **arguments}
    with pytest.raises(error, match=message):
        model.begin(generator, state, **given)
    if "bars" not in arguments:
        with pytest.raises(error, match=message):
            model.advance(generator, state, given["slots"], given["dt"])
    assert same(state, before) and generator.bit_generator.state == left


@every
def test_models_never_change(model: PriceModel) -> None:
    assert dataclasses.is_dataclass(model)
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(model, field.name, value)
        if not field.name.startswith("_") and isinstance(value, np.ndarray):
            assert not value.flags.writeable
    assert len(repr(model)) < 600 and repr(model).startswith(type(model).__name__)


def test_arrays_that_were_given_may_be_changed_later() -> None:
    from sekai.finance import GeometricBrownianMotion, RegimeSwitching, StationaryBootstrap

    mu, corr, transition, prices = np.array([0.1, 0.2]), np.eye(2), np.full((2, 2), 0.5), np.array([1.0, 2.0, 1.5])
    models: list[PriceModel] = [
        GeometricBrownianMotion(mu, mu, corr=corr),
        RegimeSwitching(mu, mu, transition=transition),
        StationaryBootstrap(prices, 2.0),
    ]
    before = [begun(model)[1].random() + model.sample_path(rng(), 5, DAY).sum() for model in models]
    for array in (mu, corr, transition, prices):
        array[:] = 9.0
    assert [begun(model)[1].random() + model.sample_path(rng(), 5, DAY).sum() for model in models] == before


@every
def test_a_path_begins_at_s0_and_multiplies_returns(model: PriceModel) -> None:
    first = np.arange(1.0, 1.0 + model.n_assets)
    prices = model.sample_path(rng(), 20, DAY, 3, s0=first)
    assert prices.shape == (3, 21, model.n_assets) and (prices[:, 0] == first).all()
    returns = model.begin(rng(), model.new_state(3), np.arange(3), 20, DAY)
    assert np.diff(np.log(prices), axis=1) == pytest.approx(returns, abs=1e-13)
    assert (model.sample_path(rng(), 0, DAY) == 100.0).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rng": 3}, TypeError, r"rng is 3; expected a generator, np.random.default_rng\(seed\)"),
        ({"steps": -1}, ValueError, "steps is -1"),
        ({"steps": True}, TypeError, "steps is True"),
        ({"n": 0}, ValueError, "n is 0; expected an int of at least 1"),
        ({"s0": 0.0}, ValueError, "s0 is 0.0; expected a price above 0, or 3 of them"),
        ({"s0": [1.0, 2.0]}, ValueError, r"s0 is \[1.0, 2.0\]"),
        ({"s0": "100"}, TypeError, "s0 is '100'"),
        ({"dt": 0}, ValueError, "dt is 0"),
    ],
)
def test_a_crooked_path_is_refused(arguments: Any, error: Any, message: str) -> None:
    given: dict[str, Any] = {"rng": rng(), "steps": 3, "dt": DAY, **arguments}
    with pytest.raises(error, match=message):
        MODELS["gbm of three"].sample_path(**given)


@pytest.mark.parametrize("mu", [1e6, -1e6])
def test_a_price_out_of_range_is_reported(mu: float) -> None:
    from sekai.finance import GeometricBrownianMotion

    with pytest.raises(FloatingPointError, match=r"A price of GeometricBrownianMotion\(mu=.* left the range of floats"):
        GeometricBrownianMotion(mu, 0.2).sample_path(rng(), 3, 1.0)


@given(st.lists(st.permutations(range(4)).flatmap(lambda p: st.integers(1, 4).map(lambda k: p[:k])), max_size=6))
def test_any_sequence_of_calls_is_a_sequence_of_single_ones(calls: list[list[int]]) -> None:
    for model in (MODELS["regimes of three"], MODELS["bootstrap of two"], MODELS["jumps"]):
        state, generator = begun(model, 4)
        other, reference = begun(model, 4)
        for number, slots in enumerate(calls):
            if number % 2:
                a = model.begin(generator, state, np.array(slots), 2, DAY)
                b = [model.begin(reference, other, np.array([slot]), 2, DAY) for slot in slots]
            else:
                a = model.advance(generator, state, np.array(slots), DAY)
                b = [model.advance(reference, other, np.array([slot]), DAY) for slot in slots]
            assert np.array_equal(a, np.concatenate(b))
        assert same(state, other)
