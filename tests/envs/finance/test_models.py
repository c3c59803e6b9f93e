"""`model=` of Trading-v0 and Portfolio-v0: simulated markets that a price model draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sekai
from sekai import finance
from sekai.envs.finance.portfolio.env import PortfolioEnv
from sekai.envs.finance.portfolio.vec import PortfolioVecEnv
from sekai.envs.finance.trading.env import TradingEnv
from sekai.envs.finance.trading.vec import TradingVecEnv

DT = 1 / 252
HISTORY = 100.0 * np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.02, 90)))
MODELS: dict[str, finance.PriceModel] = {
    "gbm": finance.GeometricBrownianMotion(0.1, 0.3),
    "regime": finance.RegimeSwitching([0.1, -0.2], [0.1, 0.4], transition=[[0.9, 0.1], [0.2, 0.8]]),
    "jumps": finance.MertonJumps(0.1, 0.2, intensity=20.0, jump_mean=-0.02, jump_std=0.05),
    "heston": finance.Heston(0.05, 0.04, kappa=2.0, xi=0.5, rho=-0.7),
    "ou": finance.OrnsteinUhlenbeck(4.0, 0.3, start=None),
    "bootstrap": finance.StationaryBootstrap(HISTORY, 5.0),
}
BY_NAME = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def path_of(model: finance.PriceModel, seed: int, lookback: int, steps: int) -> NDArray[np.float64]:
    """Log returns `(lookback + steps, n_assets)` as the model itself draws them for one slot."""
    rng, state, only = np.random.default_rng(seed), model.new_state(1), np.array([0])
    first = model.begin(rng, state, only, lookback, DT)[0]
    rest = [model.advance(rng, state, only, DT)[0] for _ in range(steps)]
    return np.concatenate([first, np.array(rest)])


@BY_NAME
def test_prices_are_the_paths_that_the_model_draws(model: finance.PriceModel) -> None:
    env = TradingEnv(model=model, lookback=4, episode_length=6, s0=50.0)
    observation, _ = env.reset(seed=7)
    returns = path_of(model, 7, 4, 6)[:, 0]
    prices = 50.0 * np.exp(np.concatenate([[0.0], returns.cumsum()]))
    assert observation[:-1].tolist() == returns[:4].astype(np.float32).tolist()
    np.testing.assert_allclose(env.price_history, prices[:5], rtol=1e-13)
    for step in range(6):
        result = env.step(2)
        assert result.info["price"] == pytest.approx(prices[5 + step], rel=1e-13)
        assert result.observation[:-1].tolist() == returns[step + 1 : step + 5].astype(np.float32).tolist()
    assert result.truncated


@BY_NAME
def test_a_native_slot_alone_is_the_single_environment(model: finance.PriceModel) -> None:
    env = TradingEnv(model=model, lookback=4, episode_length=6)
    vec = TradingVecEnv(1, model=model, lookback=4, episode_length=6, autoreset="disabled")
    assert np.array_equal(env.reset(seed=3).observation, vec.reset(seed=3).observations[0])
    for action in (0, 2, 1, 1, 2, 0):
        alone, result = env.step(action), vec.step(np.array([action]))
        assert np.array_equal(alone.observation, result.observations[0])
        assert alone.reward == result.rewards[0]
        assert alone.info == result.infos[0]


def test_a_geometric_brownian_motion_as_a_model_is_the_built_in_market() -> None:
    mu, sigma, corr = np.array([0.05, 0.1]), np.array([0.2, 0.3]), 0.4
    built_in = PortfolioEnv(n_assets=2, mu=mu, sigma=sigma, corr=corr, lookback=3, episode_length=8)
    model = finance.GeometricBrownianMotion(mu, sigma, corr=corr)
    given = PortfolioEnv(model=model, lookback=3, episode_length=8)
    assert given.n_assets == 2
    first, second = built_in.reset(seed=5), given.reset(seed=5)
    np.testing.assert_allclose(first.observation["returns"], second.observation["returns"], rtol=1e-6)
    for _ in range(8):
        one, other = (env.step(np.array([0.3, 0.5, 0.2], np.float32)) for env in (built_in, given))
        np.testing.assert_allclose(one.info["asset_returns"], other.info["asset_returns"], rtol=1e-12)
        assert one.reward == pytest.approx(other.reward, rel=1e-9, abs=1e-15)


def test_several_assets_move_as_the_model_draws_them() -> None:
    history = np.stack([HISTORY, 2.0 * HISTORY[::-1]], axis=1)
    model = finance.StationaryBootstrap(history, 4.0)
    env = PortfolioEnv(model=model, lookback=3, episode_length=5)
    observation, _ = env.reset(seed=1)
    returns = path_of(model, 1, 3, 5)
    assert observation["returns"].tolist() == returns[:3].astype(np.float32).tolist()
    for step in range(5):
        result = env.step(np.array([1.0, 0.0, 0.0], np.float32))
        np.testing.assert_allclose(result.info["asset_returns"], np.expm1(returns[3 + step]), rtol=1e-12)


def test_a_frozen_slot_is_not_drawn_for_and_a_reset_slot_begins_a_path_of_its_own() -> None:
    model, L = MODELS["regime"], 3
    vec = TradingVecEnv(3, model=model, lookback=L, episode_length=2, autoreset="disabled")
    vec.reset(seed=4)
    rng, state, every = np.random.default_rng(4), model.new_state(3), np.arange(3)
    prices = 100.0 * np.exp(model.begin(rng, state, every, L, DT)[:, :, 0].sum(axis=1))
    vec.step(np.zeros(3, int))
    prices *= np.exp(model.advance(rng, state, every, DT)[:, 0])
    vec.reset(mask=np.array([False, True, False]))
    prices[1] = 100.0 * np.exp(model.begin(rng, state, np.array([1]), L, DT)[0, :, 0].sum())
    vec.step(np.zeros(3, int))  # the last step of slots 0 and 2, which wait from then on
    prices *= np.exp(model.advance(rng, state, every, DT)[:, 0])
    result = vec.step(np.zeros(3, int))
    prices[1] *= np.exp(model.advance(rng, state, np.array([1]), DT)[0, 0])
    np.testing.assert_allclose(vec.price, prices, rtol=1e-12)
    assert result.valid.tolist() == [False, True, False]
    assert vec.rng.bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_paths_of_new_episodes_are_drawn_after_those_that_end(mode: str) -> None:
    model = MODELS["ou"]
    vec = TradingVecEnv(2, model=model, lookback=2, episode_length=1, autoreset=mode)
    vec.reset(seed=4)
    rng, state, every = np.random.default_rng(4), model.new_state(2), np.arange(2)
    model.begin(rng, state, every, 2, DT)
    vec.step(np.zeros(2, int))
    model.advance(rng, state, every, DT)
    if mode == "next_step":
        vec.step(np.zeros(2, int))
        model.advance(rng, state, np.zeros(0, int), DT)
    fresh = 100.0 * np.exp(model.begin(rng, state, every, 2, DT)[:, :, 0].sum(axis=1))
    np.testing.assert_allclose(vec.price, fresh, rtol=1e-12)


@BY_NAME
@pytest.mark.parametrize("num_envs", [None, 3])
def test_a_state_goes_on_to_the_bit_amid_an_episode(
    model: finance.PriceModel, num_envs: int | None, tmp_path: Any
) -> None:
    def build() -> Any:
        if num_envs is None:
            return TradingEnv(model=model, lookback=4, episode_length=30)
        return TradingVecEnv(num_envs, model=model, lookback=4, episode_length=30)

    env, other = build(), build()
    action = 2 if num_envs is None else np.full(num_envs, 2)
    env.reset(seed=11)
    for _ in range(5):
        env.step(action)
    np.savez(tmp_path / "state.npz", **env.get_state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        other.set_state(state)
    for _ in range(10):
        assert np.array_equal(env.step(action)[0], other.step(action)[0])


def test_a_state_of_another_model_is_refused() -> None:
    env = TradingEnv(model=finance.Heston(0.05, 0.04, kappa=2.0, xi=0.5, rho=-0.7))
    other = TradingEnv(model=finance.Heston(0.05, 0.04, kappa=2.0, xi=0.5, rho=-0.6))
    built_in = TradingEnv()
    same = TradingEnv(model=finance.Heston(0.05, 0.04, kappa=2.0, xi=0.5, rho=-0.7))
    env.reset(seed=0)
    for stranger in (other, built_in):
        with pytest.raises(ValueError, match=r"history.* is 'simulated by Heston"):
            stranger.set_state(env.get_state())
    same.set_state(env.get_state())


def test_a_bootstrap_of_another_history_is_another_model() -> None:
    env, other = (TradingEnv(model=finance.StationaryBootstrap(prices, 5.0)) for prices in (HISTORY, HISTORY[::-1]))
    with pytest.raises(ValueError, match="simulated by StationaryBootstrap"):
        other.set_state(env.get_state())


TWO = finance.GeometricBrownianMotion([0.1, 0.2], 0.2)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: TradingEnv(model="heston"), TypeError, "^model is 'heston'; expected a PriceModel"),
        (lambda: TradingEnv(HISTORY, model=MODELS["ou"]), ValueError, "^model was given beside a history"),
        (lambda: TradingEnv(model=TWO), ValueError, "has 2 assets; expected one: Portfolio-v0"),
        (lambda: PortfolioEnv(n_assets=3, model=TWO), ValueError, "^n_assets is 3, and model=.* has 2"),
        (lambda: TradingEnv(model=MODELS["gbm"], mu=0.1), ValueError, "^mu belongs to the market"),
        (lambda: TradingVecEnv(2, model=MODELS["gbm"], sigma=0.1), ValueError, "^sigma belongs to the market"),
        (lambda: TradingEnv(model=MODELS["gbm"], shock_clip=3.0), ValueError, "^shock_clip belongs to the market"),
        (lambda: PortfolioEnv(model=TWO, corr=0.1), ValueError, "^corr belongs to the market"),
        (lambda: PortfolioVecEnv(2, model=TWO, mu=[0.1, 0.1]), ValueError, "^mu belongs to the market"),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_parameters_of_the_built_in_market_cannot_be_set_beside_a_model() -> None:
    vec = TradingVecEnv(2, model=MODELS["gbm"])
    with pytest.raises(ValueError, match=r"^sigma belongs to the market"):
        vec.set_attr("sigma", 0.5)
    vec.set_attr("cost_model", 0.01)
    with pytest.raises(AttributeError, match="'model' of TradingEnv is settled"):
        vec.template.model = MODELS["ou"]  # type: ignore[misc]  # refused


class Bad(finance.PriceModel):
    """A model of a user's that goes wrong from the second bar on."""

    n_assets = 1

    def __init__(self, wrong: Any) -> None:
        self.wrong = wrong

    def new_state(self, num_slots: int) -> dict[str, NDArray[Any]]:
        return {}

    def begin(self, rng: Any, state: Any, slots: Any, bars: int, dt: float) -> NDArray[np.float64]:
        return np.zeros((len(slots), bars, 1))

    def advance(self, rng: Any, state: Any, slots: Any, dt: float) -> Any:
        return self.wrong


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (np.array([[0.0], [np.nan]]), FloatingPointError, "^Bad.advance.. returned a log return of sub-env 1 that is"),
        (np.zeros(2), ValueError, r"^Bad.advance\(\) returned float64 \(2,\); expected log returns, float64 \(2, 1\)"),
        (None, ValueError, r"^Bad.advance\(\) returned None; expected"),
    ],
)
def test_returns_that_are_none_are_refused(wrong: Any, error: type[Exception], text: str) -> None:
    vec = TradingVecEnv(2, model=Bad(wrong))
    vec.reset(seed=0)
    with pytest.raises(error, match=text):
        vec.step(np.zeros(2, int))


class Counts(finance.PriceModel):
    """Counts its bars, and returns what it is told to; in arrays that nobody else may write to."""

    def __init__(self, n_assets: int = 1) -> None:
        self._n, self.first, self.next = n_assets, 0.0, 0.0

    @property
    def n_assets(self) -> int:
        return self._n

    def new_state(self, num_slots: int) -> dict[str, NDArray[Any]]:
        return {"bars": np.zeros(num_slots)}

    def begin(self, rng: Any, state: Any, slots: Any, bars: int, dt: float) -> NDArray[np.float64]:
        state["bars"][slots] = bars
        return self._locked((len(slots), bars, self._n), self.first)

    def advance(self, rng: Any, state: Any, slots: Any, dt: float) -> NDArray[np.float64]:
        state["bars"][slots] += 1
        return self._locked((len(slots), self._n), self.next)

    @staticmethod
    def _locked(shape: tuple[int, ...], value: float) -> NDArray[np.float64]:
        returns = np.full(shape, value)
        returns.flags.writeable = False
        return returns


@pytest.mark.parametrize("value", [np.nan, 800.0], ids=["model", "kernel"])
@pytest.mark.parametrize(("cls", "n_assets", "action"), [(TradingVecEnv, 1, 2), (PortfolioVecEnv, 2, [0.5, 0.5, 0.0])])
def test_a_refused_call_leaves_the_hidden_state_as_it_was(cls: Any, n_assets: int, action: Any, value: float) -> None:
    model = Counts(n_assets)
    vec = cls(2, model=model, lookback=3)
    vec.reset(seed=0)
    actions = np.array([action, action], np.float32 if n_assets == 2 else np.int64)
    vec.step(actions)
    bars = vec._slots.arrays()["model.bars"]
    assert bars.tolist() == [4.0, 4.0]
    model.next = model.first = value
    with pytest.raises(FloatingPointError):
        vec.step(actions)
    assert bars.tolist() == [4.0, 4.0]
    with pytest.raises(FloatingPointError, match=r"sub-env 1\b"):
        vec.reset(mask=[False, True])
    assert bars.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (None, TypeError, r"^Made.new_state\(1\) returned None; expected a dict"),
        ({"x": np.zeros(1)}, ValueError, r"^Made.new_state\(3\)\['x'\] is array.*with 3 rows"),
        ({"x": [0.0] * 3}, ValueError, r"^Made.new_state\(1\)\[.x.\] is \[0.0, 0.0, 0.0\]; expected an array"),
    ],
)
def test_a_hidden_state_that_is_none_is_refused(state: Any, error: type[Exception], text: str) -> None:
    class Made(Bad):
        def new_state(self, num_slots: int) -> Any:
            return state

    with pytest.raises(error, match=text):
        TradingVecEnv(3, model=Made(None))


def test_a_model_is_known_by_all_its_numbers_and_not_by_how_they_were_given() -> None:
    n = 40
    plain, other = np.eye(n), np.eye(n)
    other[20, 21] = other[21, 20] = 0.9  # in the middle, where a long array is not printed

    def env(corr: Any) -> PortfolioEnv:
        mu = np.full((2, n), 0.05)
        return PortfolioEnv(model=finance.RegimeSwitching(mu, [0.2, 0.2], corr=corr, transition=np.full((2, 2), 0.5)))

    state = env([plain, plain]).get_state()
    with pytest.raises(ValueError, match="simulated by RegimeSwitching"):
        env([plain, other]).set_state(state)
    env((plain, plain)).set_state(state)
    mixed = env([None, other])
    env((None, other)).set_state(mixed.get_state())
    with pytest.raises(ValueError, match="simulated by RegimeSwitching"):
        env([0.0, other]).set_state(mixed.get_state())


def test_a_model_of_a_users_moves_the_market() -> None:
    model = Bad(np.array([[np.log(2.0)], [np.log(0.5)]]))
    vec = TradingVecEnv(2, model=model, transaction_cost=0.0)
    vec.reset(seed=0)
    result = vec.step(np.array([2, 2]))
    # all in at 100: the equity doubles and halves
    np.testing.assert_allclose(vec.equity, [2.0, 0.5], rtol=1e-15)
    np.testing.assert_allclose(result.rewards, [np.log(2.0), -np.log(2.0)], rtol=1e-15)


@pytest.mark.parametrize("mode", ["sync", "proc"])
def test_models_work_on_every_backend(mode: str) -> None:
    vec = sekai.make_vec("Trading-v0", 2, vectorization_mode=mode, model=MODELS["heston"], episode_length=5)
    alone = TradingEnv(model=MODELS["heston"], episode_length=5)
    try:
        seeds = [3, 4]
        vec.reset(seed=seeds)
        alone.reset(seed=4)
        for _ in range(5):
            result, one = vec.step(np.array([2, 2])), alone.step(2)
            assert result.rewards[1] == one.reward
    finally:
        vec.close()
