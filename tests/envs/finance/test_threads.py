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
from sekai.envs.finance import execution, making, portfolio, threads, trading
from sekai.envs.finance.threads import Threads, check_num_threads, cut
from sekai.finance import FixedCost, FixedStart, Heston, MarketData, SquareRootImpact
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
    "portfolio, fees": (
        finance.PortfolioVecEnv,
        {"n_assets": 3, "episode_length": 40, "lookback": 3, "ruin_fraction": 0.95,
         "cost_model": FixedCost((1e-5, 0.0, 2e-5)) + SquareRootImpact(0.02, 4.0)},
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
    for module in (trading, portfolio, making, execution):
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


def tape(vec: Any, mode: str, calls: int) -> Iterator[dict[str, Any]]:
    """What every call gives, and the state after some, to the bit; in between, some slots are reset."""
    rng, n, space = np.random.default_rng(1), vec.num_envs, vec.batch_action_space
    space.seed(3)
    yield plain(vec.reset(seed=7))
    ended = False
    for call in range(calls):
        result = vec.step(space.sample() * slowly(vec))
        ended |= bool(result.ended.any())
        yield plain(result)
        if call % 50 == 20:  # from here on the slots are out of step, and in "disabled" mode some stay frozen for long
            dones = result.dones if mode == "disabled" and call % 100 == 70 else False
            yield plain(vec.reset(mask=(rng.random(n) < 0.4) | dones))
        if call % 100 == 99:
            yield {name: (array.dtype, array.tobytes()) for name, array in vec.get_state().items()}
    assert ended, "no episode ended: the tape says less than it should"


def slowly(vec: Any) -> Any:
    """A factor for actions: an order sold in halves would be over at once."""
    return np.float32(0.1) if isinstance(vec, finance.OptimalExecutionVecEnv) else 1


def plain(result: Any) -> dict[str, Any]:
    """A result as values that are equal when all its bits are; of the dicts of many slots, some."""
    seen = result.observations if isinstance(result.observations, dict) else {"": result.observations}
    fields = {f"observations {key}": values for key, values in seen.items()}
    fields |= {name: getattr(result, name, None) for name in ("rewards", "terminated", "truncated", "kind", "ended")}
    fields |= {f"infos {key}": values for key, values in (result.infos.stacked or {}).items()}
    some = range(0, len(result.infos), 1 + len(result.infos) // 50)
    return {**{name: exact(value) for name, value in fields.items()}, "infos": [exact(result.infos[i]) for i in some]}


def exact(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, exact(entry)) for key, entry in value.items()]
    return (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def assert_equal_tapes(case: str, n: int, mode: str, calls: int = 300) -> None:
    vecs = [build(case, n, autoreset=mode, num_threads=count) for count in (1, 2, 4)]
    for call, rows in enumerate(zip(*(tape(vec, mode, calls) for vec in vecs), strict=True)):
        for name in rows[0]:
            assert rows[0][name] == rows[1][name] == rows[2][name], (call, name)
    for vec in vecs:
        vec.close()


# ---- the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@each_case
@pytest.mark.usefixtures("fine")
def test_the_number_of_threads_changes_no_bit(case: str, mode: str) -> None:
    assert_equal_tapes(case, 255, mode)


@pytest.mark.parametrize("n", [1, 7, 1000, 4096])
@each_case
@pytest.mark.usefixtures("fine")
def test_the_number_of_threads_changes_no_bit_at_other_sizes(case: str, n: int) -> None:
    assert_equal_tapes(case, n, "same_step")


@each_case
def test_nor_where_ranges_are_as_users_get_them(case: str) -> None:
    fewest = build(case, 1)._slots.threads._fewest
    n = 2 * fewest + 100
    assert [len(build(case, k, num_threads=2)._slots.threads.ranges) for k in (2 * fewest - 1, n)] == [1, 2]
    assert_equal_tapes(case, n, "same_step", calls=45)


@each_case
@pytest.mark.usefixtures("fine")
def test_a_state_saved_with_one_thread_goes_on_with_four(case: str) -> None:
    one, four = build(case, 9, num_threads=1), build(case, 9, num_threads=4)
    for _ in tape(one, "same_step", 50):
        pass
    four.set_state(one.get_state())
    assert four.num_threads == 4 and not any("threads" in name for name in one.get_state())
    for a, b in zip(tape_on(one), tape_on(four), strict=True):
        assert a == b
    four.close()


def tape_on(vec: Any) -> Iterator[dict[str, Any]]:
    vec.batch_action_space.seed(4)
    for _ in range(30):
        yield plain(vec.step(vec.batch_action_space.sample() * slowly(vec)))


@each_case
@pytest.mark.usefixtures("fine")
def test_a_copy_goes_on_alike_with_threads_of_its_own(case: str) -> None:
    vec = build(case, 9, num_threads=3)
    vec.reset(seed=0)
    vec.step(vec.batch_action_space.sample())
    assert len(workers()) in (1, 2)
    for other in (copy.deepcopy(vec), pickle.loads(pickle.dumps(vec))):
        assert other.num_threads == 3
        kept = copy.deepcopy(vec)
        for a, b in zip(tape_on(kept), tape_on(other), strict=True):
            assert a == b
        kept.close()
        other.close()
    vec.close()


def step_in_child(vec: Any, answer: Any) -> None:
    rows = list(tape_on(vec))
    answer.send((rows, len(workers())))
    vec.close()


@pytest.mark.parametrize("case", ["trading, simulated", "portfolio, simulated"])
@pytest.mark.usefixtures("fine")
def test_after_a_fork_the_child_makes_threads_of_its_own(case: str) -> None:
    vec = build(case, 9, num_threads=3)
    vec.reset(seed=0)
    vec.step(vec.batch_action_space.sample())
    assert workers()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=step_in_child, args=(vec, there))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is what this is about
        child.start()
    assert here.poll(60)
    rows, threads_of_child = here.recv()
    child.join(20)
    assert child.exitcode == 0 and threads_of_child in (1, 2)
    assert rows == list(tape_on(vec))  # and the parent's still work
    vec.close()


# ---- refusals, errors, interrupts -----------------------------------------------------------------


@pytest.mark.parametrize("case", ["trading, simulated", "portfolio, simulated"])
@pytest.mark.usefixtures("fine")
def test_what_one_range_refuses_moves_no_other(case: str) -> None:
    vec = build(case, 8, num_threads=4)  # ranges of two slots
    vec.reset(seed=0)
    vec.set_attr("mu", 252 * 800.0)  # every price that moves becomes infinite
    vec.frozen = np.isin(np.arange(8), (5, 7), invert=True)  # of the last two ranges a slot each
    slots = {name: array.copy() for name, array in vec._slots.arrays().items()}
    with pytest.raises(FloatingPointError, match="sub-env 5 left the range"):
        vec._step(np.zeros_like(vec.batch_action_space.sample()))
    for name, array in vec._slots.arrays().items():
        assert array.tobytes() == slots[name].tobytes(), name
    vec.close()


def six(count: int = 3) -> Threads:
    pool = Threads(6, 1)
    pool.count = count
    return pool


@pytest.mark.usefixtures("fine")
def test_results_come_in_the_order_of_the_ranges_and_each_slot_is_done_once() -> None:
    pool = six()
    done: list[int] = []

    def note(lo: int, hi: int, plus: int) -> int:
        time.sleep(0.002 * (6 - lo))
        done.extend(range(lo, hi))
        return lo + plus

    assert pool.run(note, 10) == [10, 12, 14] and sorted(done) == [0, 1, 2, 3, 4, 5]
    assert pool.first(lambda lo, hi: lo if lo else -1) == 2 and pool.first(lambda lo, hi: -1) == -1
    pool.close()


@pytest.mark.usefixtures("fine")
def test_an_error_comes_out_when_no_range_is_running() -> None:
    pool = six()
    begun, ended = [], []

    def fail(lo: int, hi: int) -> None:
        begun.append(lo)
        time.sleep(0.01 * lo)
        ended.append(lo)
        if lo:
            raise ArithmeticError(f"range from {lo}")

    for _ in range(20):
        with pytest.raises(ArithmeticError, match="range from 2"):
            pool.run(fail)
        assert sorted(begun) == sorted(ended)
    assert pool.run(lambda lo, hi: lo) == [0, 2, 4]  # and it can be used again
    pool.close()


@pytest.mark.parametrize("kind", [ArithmeticError, KeyboardInterrupt])
@pytest.mark.usefixtures("fine")
def test_what_stops_the_caller_waits_for_the_workers(kind: type[BaseException]) -> None:
    pool = six()
    worker_began, ended = threading.Event(), []

    def stop(lo: int, hi: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert worker_began.wait(5)
            raise kind("stopped")
        worker_began.set()
        time.sleep(0.05)
        ended.append(lo)

    with pytest.raises(kind, match="stopped"):
        pool.run(stop)
    assert ended
    count = len(ended)
    time.sleep(0.1)
    assert len(ended) == count, "a range ran on after the call"
    pool.close()


@pytest.mark.usefixtures("fine")
def test_interrupts_while_waiting_are_raised_after_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Event):
        times = 0

        def wait(self, timeout: float | None = None) -> bool:
            Interrupted.times += 1
            if Interrupted.times < 3:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(threads, "Event", Interrupted)
    pool = six(2)
    worker_began, ended = threading.Event(), []

    def work(lo: int, hi: int) -> None:
        if lo == 0:
            assert worker_began.wait(5)
            return
        worker_began.set()
        time.sleep(0.05)
        ended.append(lo)

    with pytest.raises(KeyboardInterrupt):
        pool.run(work)
    assert ended == [3] and Interrupted.times == 3
    pool.close()


# ---- how many, and until when ---------------------------------------------------------------------


def test_ranges_cover_all_slots_once_and_begin_at_multiples_of_64() -> None:
    assert cut(1000, 3) == [(0, 384), (384, 768), (768, 1000)]
    assert cut(1, 4) == [(0, 1)] and cut(65, 4) == [(0, 64), (64, 65)]
    for n in range(1, 700, 13):
        for parts in range(1, 9):
            ranges = cut(n, parts)
            assert [slot for lo, hi in ranges for slot in range(lo, hi)] == list(range(n)) and len(ranges) <= parts
            assert all(lo % 64 == 0 and lo < hi for lo, hi in ranges)


def test_few_slots_get_fewer_threads() -> None:
    pool = Threads(1000, 300)
    pool.count = 8
    assert len(pool.ranges) == 3
    pool.count = 2
    assert pool.ranges == [(0, 512), (512, 1000)]
    assert Threads(1000, 300).ranges == [(0, 1000)]
    alone = Threads(10, 300)
    alone.count = 4
    caller: list[threading.Thread] = []
    alone.run(lambda lo, hi: caller.append(threading.current_thread()))
    assert caller == [threading.main_thread()]


@pytest.mark.usefixtures("fine")
def test_threads_begin_with_the_first_step_and_end_with_close() -> None:
    vec = build("execution", 9, num_threads=3)
    vec.reset(seed=0)
    assert not workers()
    for _ in range(20):
        vec.step(np.full((9, 1), 0.01, np.float32))
    assert len(workers()) in (1, 2)
    vec.num_threads = 2
    assert vec.num_threads == 2 and not workers()
    vec.step(np.full((9, 1), 0.01, np.float32))
    assert len(workers()) == 1
    vec.close()
    vec.close()
    assert not workers()


@pytest.mark.parametrize("case", CASES)
def test_one_thread_is_the_default_and_starts_none(case: str) -> None:
    vec = build(case, 5000)
    vec.reset(seed=0)
    vec.step(vec.batch_action_space.sample())
    assert vec.num_threads == 1 and vec.get_attr("num_threads")[:2] == [1, 1] and not workers()
    vec.set_attr("num_threads", 2)
    assert vec.num_threads == 2 and not workers()


def test_auto_is_the_number_of_cores_that_may_be_used() -> None:
    allowed = os.sched_getaffinity(0)
    assert build("execution", 3, num_threads="auto").num_threads == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert check_num_threads("auto") == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError), ("many", TypeError), (None, TypeError)],
)
def test_other_numbers_of_threads_are_refused(value: Any, error: type[Exception]) -> None:
    text = f"num_threads is {value!r}; expected an int of at least 1, or 'auto'."
    with pytest.raises(error) as raised:
        build("execution", 3, num_threads=value)
    assert str(raised.value) == text
    vec = build("execution", 3)
    with pytest.raises(error) as raised:
        vec.num_threads = value
    assert str(raised.value) == text and vec.num_threads == 1


def test_make_vec_hands_it_to_the_native_environment_and_no_other_mode_takes_it() -> None:
    assert sekai.make_vec("Trading-v0", 8, num_threads=2).get_attr("num_threads") == [2] * 8
    text = "takes no argument 'num_threads'. It is an argument of the native vector environment"
    with pytest.raises(TypeError, match=text) as raised:
        sekai.make_vec("Trading-v0", 8, num_threads=2, vectorization_mode="sync")
    assert "vectorization_mode='native'" in str(raised.value)
    with pytest.raises(TypeError, match=text):
        sekai.make("Trading-v0", num_threads=2)
    with pytest.raises(TypeError, match=r"takes no argument 'num_threads'\. Did you mean 'num_envs'"):
        sekai.make_vec("CartPole-v1", 8, num_threads=2)  # no native environment
