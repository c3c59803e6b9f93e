"""`Setup`: what is run in the lab, checked, and the vector environment and the policy that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, TypeVar

from sekai.collect.rows import Restart
from sekai.core.slots import AutoresetMode
from sekai.lab.players import Player
from sekai.registry import make_vec
from sekai.seeding import check_seed
from sekai.spaces.checks import whole_number
from sekai.testing import CodedEnv, CodedVecEnv
from sekai.testing.coded import ENDINGS
from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv, VecEnv

COUNTING = "counting"
TRADING = "Trading-v0"
#: what the page offers by name; `environment` may be any other id as well
ENVIRONMENTS = (COUNTING, "CartPole-v1", TRADING, "OptimalExecution-v0")
BACKENDS = ("auto", "sync", "async", "proc", "native")
MODES = ("same_step", "next_step", "disabled")
MOST_SLOTS = 32
#: worker processes of the backend "proc", however many slots there are
WORKERS = 2
#: trading days of an episode of `Trading-v0`
TRADING_DAYS = 8

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is run: an environment in some slots, and who acts.

    Attributes:
        environment: `"counting"`, whose observations are `(slot, episode, step)`, or an id, as `make` takes it.
            `Trading-v0` trades daily closes of the S&P 500, 1999 to 2018, eight days an episode.
        lengths: steps of an episode of `"counting"`, slot after slot, from the front again where there are more slots.
        endings: how these episodes end, likewise: `"terminated"`, `"truncated"` or `"both"`.
        slots: 1 to 32.
        backend: `"auto"` (native where there is one, else sync), `"sync"`, `"async"`, `"proc"` or `"native"`.
        autoreset: `"same_step"`, `"next_step"` or `"disabled"`; slots of the last are reset when all have ended, so
            that frozen rows can be seen.
        action: what every slot does in every step; None: random actions.
        seed: of the environments and of random actions.

    Raises:
        ValueError: a value out of range; the message says which, and what was expected.
        TypeError: a value of another type.
    """

    environment: str = COUNTING
    lengths: tuple[int, ...] = (3, 5, 4)
    endings: tuple[str, ...] = ("terminated", "truncated", "both")
    slots: int = 4
    backend: str = "auto"
    autoreset: str = "next_step"
    action: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.environment.strip():
            raise ValueError("environment is empty; expected 'counting' or an id such as 'CartPole-v1'.")
        if not 1 <= whole_number("slots", self.slots, minimum=1) <= MOST_SLOTS:
            raise ValueError(f"slots is {self.slots}; expected 1 to {MOST_SLOTS}.")
        _require("backend", self.backend, BACKENDS)
        _require("autoreset", self.autoreset, MODES)
        if not self.lengths or not self.endings:
            raise ValueError("lengths and endings need at least one entry each.")
        for length in self.lengths:
            whole_number("length", length, minimum=1)
        for ending in self.endings:
            _require("ending", ending, ENDINGS)
        if check_seed(self.seed) is None:
            raise TypeError("seed is None; expected an int, so that the run can be repeated.")

    @property
    def restart(self) -> Restart:
        """The `restart` of its collector."""
        return "all" if AutoresetMode(self.autoreset) is AutoresetMode.DISABLED else "each"

    def make(self) -> VecEnv:
        """A new vector environment; whoever asks for it closes it.

        Raises:
            EnvNotFound: there is no such id.
            ValueError: it has no such backend, or the action does not fit.
            ImportError: the price history is not installed.
            Exception: what building the environment raised.
        """
        vec = self._counting() if self.environment == COUNTING else self._registered()
        if self.action is not None and not vec.action_space.contains(self.player(vec).constant):
            vec.close()
            raise ValueError(f"action is {self.action!r}; expected one of {vec.action_space}.")
        return vec

    def player(self, vec: VecEnv) -> Player:
        """The policy that acts in a vector environment of this setup."""
        return Player(vec.action_space, seed=self.seed, action=self.action)

    def _registered(self) -> VecEnv:
        kwargs: dict[str, Any] = {}
        if self.environment == TRADING:
            from sekai.finance.datasets import sp500

            kwargs = {"data": sp500(), "episode_length": TRADING_DAYS}
        for_vector = {"autoreset": self.autoreset, **self._workers()}
        backend = None if self.backend == "auto" else self.backend
        return make_vec(self.environment, self.slots, vectorization_mode=backend, vector_kwargs=for_vector, **kwargs)

    def _counting(self) -> VecEnv:
        lengths, endings = around(self.lengths, self.slots), around(self.endings, self.slots)
        if self.backend in ("auto", "native"):
            return CodedVecEnv(self.slots, lengths, ending=endings, autoreset=self.autoreset)  # type: ignore[arg-type]  # endings were checked
        backend: Callable[..., VecEnv] = {"sync": SyncVecEnv, "async": AsyncVecEnv, "proc": ProcVecEnv}[self.backend]
        each = [
            partial(CodedEnv, slot, length, ending=ending)  # type: ignore[arg-type]  # endings were checked
            for slot, (length, ending) in enumerate(zip(lengths, endings, strict=True))
        ]
        return backend(each, autoreset=self.autoreset, **self._workers())

    def _workers(self) -> dict[str, int]:
        return {"num_workers": min(WORKERS, self.slots)} if self.backend == "proc" else {}


def around(values: tuple[_T, ...], count: int) -> list[_T]:
    """`count` values, from the front again where there are more than were given."""
    return list(islice(cycle(values), count))


def _require(name: str, given: str, among: tuple[str, ...]) -> None:
    if given not in among:
        raise ValueError(f"{name} is {given!r}; expected one of {', '.join(map(repr, among))}.")
