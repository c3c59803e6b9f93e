"""`num_threads`: the same bits with 1, 2 and 4 threads; who waits for whom; when threads begin and end."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs import finance
from sekai.envs.finance import threads
from sekai.envs.finance.threads import Threads, check_num_threads, cut
from sekai.finance import FixedStart, Heston, MarketData
from tests.envs.finance import portfolio_samples, samples

DATES = np.datetime64("2020-01-01") + np.arange(len(samples.HISTORY))

#: name -> (class, arguments)
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "trading, simulated": (finance.TradingVecEnv, {"episode_length": 40, "lookback": 3, "sigma": 0.5}),
    "trading, Heston": (
        finance.TradingVecEnv,
        {"episode_length": 40, "lookback": 3, "model": Heston(mu=0.05, kappa=2.0, theta=0.04, xi=0.5, rho=-0.7)},
    ),
    "trading, history": (
        finance.TradingVecEnv,
        {
            "data": MarketData(samples.HISTORY, DATES), "episode_length": 40, "lookback": 3, "rebalance": "on_change",
            "positions": (-3.0, 0.0, 9.0), "ruin_fraction": 0.9, "borrow_rate": 0.1,
        },
    ),
    "portfolio, simulated": (
        finance.PortfolioVecEnv,
        {"n_assets": 3, "episode_length": 40, "lookback": 3, "corr": 0.3, "ruin_fraction": 0.95},
    ),
    "portfolio, history": (
        finance.PortfolioVecEnv,
        {"prices": portfolio_samples.HISTORY, "episode_length": 40, "lookback": 3, "allow_short": True,
         "sampler": FixedStart([5, 2, 9]), "transaction_cost": [0.001, 0.002, 0.003]},
    ),
    "market making": (finance.MarketMakingVecEnv, {"n_steps": 40, "terminal_penalty": 0.1}),
    "execution": (finance.OptimalExecutionVecEnv, {"n_steps": 40, "sigma": 2.0}),
}  # fmt: skip
MODES = ("same_step", "next_step", "disabled")
each_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges may begin at any slot, and a slot is enough for a thread: also small environments are cut."""
    monkeypatch.setattr(threads, "GRAIN", 1)
    for module in (finance.trading, finance.portfolio, finance.making, finance.execution):
        monkeypatch.setattr(module.slots, "FEWEST", 1)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not workers()


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sekai-slots")]


def build(case: str, n: int, **arguments: Any) -> Any:
    cls, own = CASES[case]
    return cls(n, **own, **arguments)


def tape(vec: Any, n: int, calls: int) -> Iterator[dict[str, bytes]]:
    """What every call gives, and the state after some of them, as bytes; resets of some slots in between."""
    rng = np.random.default_rng(1)
    space = vec.batch_action_space
    space.seed(3)
    yield as_bytes(vec.reset(seed=7))
    for call in range(calls):
        actions = space.sample()
        if vec.action_space.shape == (1,):  # or no order would last
            actions = actions * np.float32(0.2)
        result = vec.step(actions)
        yield as_bytes(result)
        if call % 50 == 20:  # and with the default options so that slots are not in step any more
            mask = (rng.random(n) < 0.4) | (call > 200)
            mask |= result.dones if vec.metadata["autoreset_mode"] == "disabled" and call % 100 == 20 else False
            yield as_bytes(vec.reset(mask=mask))
        if call % 100 == 99:
            yield {name: np.asarray(array).tobytes() for name, array in vec.get_state().items()}


def as_bytes(result: Any) -> dict[str, bytes]:
    seen = result.observations if isinstance(result.observations, dict) else {"": result.observations}
    rows = {f"observations.{name}": values.tobytes() for name, values in seen.items()}
    for name in ("rewards", "terminated", "truncated", "kind"):
        if hasattr(result, name):
            rows[name] = np.ascontiguousarray(getattr(result, name)).tobytes()
    return {**rows, **columns("infos", result.infos)}


def columns(prefix: str, infos: Any) -> dict[str, bytes]:
    rows: dict[str, bytes] = {}
    for name, (values, given) in infos.columns.items():
        rows[f"{prefix}.{name}?"] = np.ascontiguousarray(given).tobytes()
        if name in ("final_info", "reset_info", "final_observation"):
            rows[f"{prefix}.{name}"] = pickle.dumps([infos[slot].get(name) for slot in np.flatnonzero(given)])
        else:
            rows[f"{prefix}.{name}"] = np.ascontiguousarray(values).tobytes()
    return rows
