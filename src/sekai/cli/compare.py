"""`sekai bench ID --compare`: the backends that fit an environment, side by side, and which of them to take.

All of them are built first, then stepped in turns, a fraction of a second each, so that noise of the machine meets all
alike. A ratio is the throughput of a backend over that of `SyncVecEnv` in the same round; quoted is the median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sekai.cli.bars import draw_ratios
from sekai.cli.bench import random_actions
from sekai.cli.output import Advance, on_terminal, progress, show_table
from sekai.cli.picture import require_writable
from sekai.core.env import Env
from sekai.registry import EnvSpec, make, make_vec, spec
from sekai.vector import VecEnv
from sekai.vector.spin import cores

TURN = 0.2  # seconds of a backend in a round, where the number of steps is not given
WARM_UP = 0.3  # seconds that each backend is stepped before
#: a gain that is smaller is not worth another backend, and may be noise
WORTH = 1.1


class Candidate(NamedTuple):
    """A backend that may fit.

    Attributes:
        mode: its `vectorization_mode`.
        fits: whether it fits an environment.
        workers: processes of `num_envs` sub-environments, None: it has none.
    """

    mode: str
    fits: Callable[[EnvSpec], bool]
    workers: Callable[[int], int | None] = lambda num_envs: None


def _has_native(entry: EnvSpec) -> bool:
    return entry.is_native and not entry.additional_wrappers


def _waits(entry: EnvSpec) -> bool:
    """Whether the environment has an `async_step` of its own."""
    env = make(entry)
    try:
        inner: Any = env.unwrapped
        return isinstance(inner, Env) and type(inner).async_step is not Env.async_step
    finally:
        env.close()


#: sync first: the others are compared with it
CANDIDATES = (
    Candidate("sync", lambda entry: True),
    Candidate("native", _has_native),
    Candidate("async", _waits),
    Candidate("proc", lambda entry: True, lambda num_envs: min(cores(), num_envs)),
)


@dataclass(frozen=True)
class Result:
    """What was measured of one backend.

    Attributes:
        mode: the backend.
        workers: its processes, None where it has none.
        rate: env steps per second, the median of all rounds.
        ratio: of it to that of sync, the median of the ratios of each round.
    """

    mode: str
    workers: int | None
    rate: float
    ratio: float

    @property
    def name(self) -> str:
        """The backend in words."""
        if self.workers is None:
            return self.mode
        return f"{self.mode}, {self.workers} worker{'s' if self.workers > 1 else ''}"


class Side:
    """One backend in a comparison.

    Args:
        mode: its `vectorization_mode`.
        workers: its processes, None where it has none.
        vec: the vector environment.
        seed: of the environments and the actions.

    Attributes:
        rates: env steps per second, one per round.
    """

    def __init__(self, mode: str, workers: int | None, vec: VecEnv, seed: int) -> None:
        self.mode, self.workers, self.rates = mode, workers, list[float]()
        self._vec, self._actions = vec, random_actions(vec, seed)
        vec.reset(seed=seed)

    def warm_up(self) -> float:
        """Seconds of a step, as far as can be told before measuring."""
        steps, end = 0, time.perf_counter() + WARM_UP
        while steps < 2 or time.perf_counter() < end:
            steps += 1
            self._step(1)
        timed = max(1, steps // 2)
        return self._step(timed) / timed

    def turn(self, steps: int) -> None:
        """Take part in a round."""
        self.rates.append(self._vec.num_envs * steps / self._step(steps))

    def _step(self, steps: int) -> float:
        actions, step = self._actions, self._vec.step
        started = time.perf_counter()
        for call in range(steps):
            step(actions[call % len(actions)])
        return time.perf_counter() - started


def compare(
    id: str,
    *,
    num_envs: int,
    workers: int | None,
    steps: int | None,
    rounds: int,
    seed: int,
    output: Path | None = None,
) -> None:
    """Measure the backends that fit; print a table and a recommendation, and draw them.

    Args:
        id: of the environment.
        num_envs: sub-environments.
        workers: processes of the backends that have some; None: as many as there are cores.
        steps: vector steps of a backend in a round; None: as many as take a fifth of a second.
        rounds: how often each backend has its turn.
        seed: of the environments and the actions.
        output: where the picture goes; None: `bench.png`, or no picture where matplotlib is not installed.
    """
    entry = spec(id)
    if output is None and find_spec("matplotlib") is not None:
        output = Path("bench.png")
    if output is not None:
        require_writable(output)
    fitting = [candidate for candidate in CANDIDATES if candidate.fits(entry)]
    with ExitStack() as stack:
        title = f"{entry.id} ({num_envs} sub-envs)"
        advance = stack.enter_context(progress(title, len(fitting) * (rounds + 1)))
        sides = []
        for candidate in fitting:
            own = candidate.workers(num_envs)
            own = own if own is None or workers is None else workers
            kwargs = {} if own is None else {"num_workers": own}
            vec = make_vec(entry, num_envs, vectorization_mode=candidate.mode, vector_kwargs=kwargs)
            sides.append(Side(candidate.mode, own, stack.enter_context(vec), seed))
        _measure(sides, steps, rounds, advance)
    results = [_result(side, sides[0]) for side in sides]
    _show(entry.id, num_envs, rounds, results)
    if output is not None:
        bars = {result.name: (result.ratio, f"{result.rate:,.0f} env steps/s") for result in results}
        title = f"{entry.id}, {num_envs} sub-environments"
        draw_ratios(bars, output, title, f"throughput over that of sync, median of {rounds} rounds")
        if on_terminal():
            print(f"{output} saved")


def _measure(sides: Sequence[Side], steps: int | None, rounds: int, advance: Advance) -> None:
    counts = []
    for side in sides:
        seconds = side.warm_up()
        counts.append(max(1, round(TURN / seconds)) if steps is None else steps)
        advance(1)
    for _ in range(rounds):
        for side, count in zip(sides, counts, strict=True):
            side.turn(count)
            advance(1)


def _result(side: Side, sync: Side) -> Result:
    ratios = [own / base for own, base in zip(side.rates, sync.rates, strict=True)]
    return Result(side.mode, side.workers, statistics.median(side.rates), statistics.median(ratios))


def recommendation(results: Sequence[Result]) -> str:
    """Which backend to take, in words.

    Args:
        results: of all backends, sync among them.
    """
    best = max(results, key=lambda result: result.ratio)
    slower = [result for result in results if result.mode != "sync" and result.ratio < 1.0]
    said = [f"{result.name} is slower than sync here ({result.ratio:.2f} times)." for result in slower]
    if any(result.workers for result in slower):
        said.append("A step costs less than the way to another process and back, or the cores are busy.")
    if best.mode == "sync" or best.ratio < WORTH:
        return " ".join(["Take vectorization_mode='sync': nothing else gains enough to be worth it.", *said])
    gain = f"{best.ratio:.2f}" if best.ratio < 10 else f"{best.ratio:.0f}"
    kwargs = "" if best.workers is None else f" with vector_kwargs={{'num_workers': {best.workers}}}"
    return " ".join([f"Take vectorization_mode={best.mode!r}{kwargs}: {gain} times sync.", *said])


def _show(id: str, num_envs: int, rounds: int, results: Sequence[Result]) -> None:
    advice = recommendation(results)
    if on_terminal():
        rows = [(result.name, f"{result.rate:,.0f}", f"{result.ratio:.2f}") for result in results]
        title = f"{id}, {num_envs} sub-envs, median of {rounds} rounds"
        show_table(title, ("backend", "env steps/s", "times sync"), rows, right=True)
        print(advice)
        return
    for result in results:
        workers = "" if result.workers is None else f"workers={result.workers} "
        print(
            f"{id} mode={result.mode} {workers}num_envs={num_envs} {result.rate:.0f} steps/s ratio={result.ratio:.2f}"
        )
    print(f"{id} {advice}")
