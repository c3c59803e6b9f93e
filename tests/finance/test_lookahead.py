"""The probe for look-ahead: environments that keep the future to themselves pass, leaks of every kind are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core import ResetResult, StepResult
from sekai.finance import MarketData, assert_no_lookahead, datasets
from sekai.spaces import Box, Discrete

WALK = 100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.01, (60, 3)), axis=0))


def test_the_environments_show_nothing_of_the_future() -> None:
    days = np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")
    listed = np.where(np.arange(60)[:, None] < [0, 0, 5], np.nan, WALK)  # the third is listed later
    data = MarketData(listed, days, fields={"open": listed * 0.99, "volume": np.ones((60, 3))})
    arguments: dict[str, Any] = {"episode_length": 20, "lookback": 6, "sampler": sekai_sampler()}
    assert_no_lookahead(lambda market: sekai.make("Portfolio-v0", data=market, **arguments), data, steps=20)
    assert_no_lookahead(lambda market: sekai.make("Trading-v0", data=market, **arguments), steps=20)


def sekai_sampler() -> Any:
    from sekai.finance import FixedStart

    return FixedStart(7)


def test_a_real_history_with_dates_is_probed_too() -> None:
    assert_no_lookahead(
        lambda data: sekai.make("Trading-v0", data=data, episode_length=10), datasets.nasdaq()[:100], steps=5
    )


class Market(sekai.Env[Any, Any]):
    """Shows the price of its row, and what `leak` adds to an observation, an info or a mask."""

    def __init__(self, data: MarketData, leak: str = "", ahead: int = 1) -> None:
        self.data, self.leak, self.ahead = data, leak, ahead
        self.observation_space = Box(-np.inf, np.inf, (2,))
        self.action_space = Discrete(2)

    def action_mask(self) -> Any:
        rises = self._ahead() > self.data.prices[self.row]
        return np.array([1, int(rises) if self.leak == "mask" else 1], np.int8)

    def _ahead(self) -> float:
        return float(self.data.prices[self.row + self.ahead])

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        seen = np.array([self.data.prices[self.row], self._ahead() if self.leak == "observation" else 0], np.float32)
        info: dict[str, Any] = {"timestamp": self.row}
        if self.leak == "mean":
            info["score"] = {"z": [float(self.data.prices[self.row] / self.data.prices.mean())]}
        if self.leak == "exogenous":
            info["rate"] = float(self.data.exogenous["rate"][self.row + self.ahead])
        if self.leak == "field":
            info["volume"] = float(self.data.fields["volume"][self.row + self.ahead])
        return seen, info

    def reset(self, *, seed: Any = None, options: Any = None) -> ResetResult:
        self._set_rng(seed)
        self.row = 3
        return ResetResult(*self._shown())

    def step(self, action: Any) -> StepResult:
        before = self.data.prices[self.row]
        reward = self._ahead() if self.leak == "reward" else self.data.prices[self.row + 1] - before
        self.row += 1
        ended = self.row == 12 or (self.leak == "end" and self._ahead() > 1.05 * before)
        return StepResult(self._shown()[0], float(reward), False, bool(ended), self._shown()[1])


def history() -> MarketData:
    prices = 100 * np.exp(np.cumsum(np.random.default_rng(4).normal(0, 0.01, 30)))
    volume, rate = np.random.default_rng(5).uniform(1, 2, (2, 30))
    return MarketData(prices, fields={"volume": volume}, exogenous={"rate": rate})


def leaking(leak: str, ahead: int = 1) -> Callable[[MarketData], Market]:
    return lambda data: Market(data, leak, ahead)


def test_an_environment_of_the_present_passes() -> None:
    assert_no_lookahead(leaking(""), history())
    for leak in ("observation", "mask", "exogenous", "field"):
        assert_no_lookahead(leaking(leak, ahead=0), history())


@pytest.mark.parametrize(
    ("leak", "ahead", "message"),
    [
        ("observation", 1, r"Look-ahead: observation\[1\] at row 3, step 0, is .*, and .* all that comes after row 3"),
        ("observation", 9, r"Look-ahead: observation\[1\] at row 3"),
        ("mask", 1, r"Look-ahead: mask\[1\] at row \d+"),
        ("mean", 1, r"Look-ahead: info\['score'\]\['z'\]\[0\] at row 3, step 0"),
        ("exogenous", 1, r"Look-ahead: info\['rate'\] at row 3"),
        ("field", 1, r"Look-ahead: info\['volume'\] at row 3"),
        ("reward", 2, r"Look-ahead: reward at row 4, step 1"),
        ("end", 1, r"Look-ahead: truncated at row"),
    ],
)
def test_every_leak_is_caught_and_named(leak: str, ahead: int, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_no_lookahead(leaking(leak, ahead), history())


def test_an_environment_of_another_history_proves_nothing() -> None:
    fixed = history()
    with pytest.raises(ValueError, match="expected env_factory to make an environment of the history that it is given"):
        assert_no_lookahead(lambda _: Market(fixed), history())


def test_an_info_without_a_row_is_refused() -> None:
    class Rowless(Market):
        def _shown(self) -> tuple[Any, dict[str, Any]]:
            return super()._shown()[0], {"when": 3}

    with pytest.raises(ValueError, match=r"The info has no 'timestamp', only \['when'\]"):
        assert_no_lookahead(Rowless, history())
