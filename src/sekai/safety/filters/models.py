"""Models: what an imagined rollout is rolled out on.

    SystemModel   a `System`; rows are its states
    TwinModel     a second native environment, which is given the state of the first; rows are its observations

A model imagines one scenario at a time, of all slots at once. Where scenarios differ by random draws, these are the
same in every imagination of an episode, so that the answer to a question does not change, and new ones when the next
episode begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.safety.filters.answers import Flags, Floats, actions_of, name_of
from sekai.safety.systems.base import System
from sekai.spaces.checks import whole_number
from sekai.vector import NativeVecEnv, VecEnv

Answer = Callable[[Floats, Floats], Any]


class Imagined(NamedTuple):
    """One imagined step of N slots.

    Attributes:
        rows: after it, `(N, ...)`; those of slots that are over mean nothing.
        g: safety margins after it, `(N,)`.
        over: slots whose imagined episode has ended by now, bool `(N,)`.
    """

    rows: Any
    g: Floats
    over: Flags


class Model(ABC):
    """Base class: implement `start` and `step`.

    Attributes:
        scenarios: how many there are; safe is what is safe in all of them.
    """

    scenarios: int = 1

    @abstractmethod
    def start(self, rows: Any, scenario: int, steps: int) -> None:
        """Imagine from here: rows of all slots, the number of the scenario, and how many steps there will be."""

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Imagined:
        """One step further, with actions `(N, U)`."""

    def begin(self, slots: Flags) -> None:  # noqa: B027  # who remembers nothing need not hear of it
        """New episodes begin in these slots, bool `(N,)`; by default nothing is remembered of the old ones."""


class SystemModel(Model):
    """A system, with an opponent.

    Args:
        system: the dynamics; rows are its states, `(N, S)`.
        disturbance: "zero"; "worst", the system's `worst_disturbance`; "sampled", spread evenly over its set, anew in
            every step; or a function of states `(N, S)` and controls `(N, U)` that gives `(N, D)`.
        samples: scenarios, where it is "sampled".
        seed: of the samples, which depend on it, the slot and the number of its episode only.

    Raises:
        ValueError: another disturbance, or one that the system has no place for, or does not know.
    """

    def __init__(self, system: System, *, disturbance: str | Answer = "zero", samples: int = 8, seed: int = 0) -> None:
        if not (disturbance in ("zero", "worst", "sampled") or callable(disturbance)):
            raise ValueError(
                f"disturbance is {disturbance!r}; expected 'zero', 'worst', 'sampled' or a function of states and "
                "controls."
            )
        if disturbance != "zero" and system.disturbance is None:
            raise ValueError(f"disturbance is {disturbance!r}, and {system} has no place for one: leave it out.")
        if disturbance == "worst" and system.worst_disturbance is None:
            raise ValueError(
                f"disturbance is 'worst', and none is known that is the worst in every state of {system}: use "
                "'sampled', or a function of states and controls."
            )
        self.system, self.disturbance = system, disturbance
        self.scenarios = whole_number("samples", samples, minimum=1) if disturbance == "sampled" else 1
        self._seed = whole_number("seed", seed, minimum=0)
        self._episodes: NDArray[np.int64] | None = None
        self._draws = np.zeros((0, 0, 0, 0))  # uniform numbers, (N, scenarios, steps, D)
        self._stale = np.zeros(0, bool)
        self._scenario = self._elapsed = 0
        self._states = np.zeros((0, system.state_size))

    def begin(self, slots: Flags) -> None:
        """Draw new scenarios for these slots."""
        if self._episodes is None:
            self._episodes = np.zeros(len(slots), np.int64)
            self._stale = np.ones(len(slots), bool)
        self._episodes += slots
        self._stale |= slots

    def start(self, rows: Any, scenario: int, steps: int) -> None:
        """Imagine from these states."""
        self._states = np.array(rows, np.float64)
        self._scenario, self._elapsed = scenario, 0
        if self.disturbance == "sampled":
            self._draw(len(self._states), steps)

    def step(self, actions: NDArray[Any]) -> Imagined:
        """One step of the system."""
        controls = self.system.control.project(actions.astype(np.float64))
        self._states = self.system.step(self._states, controls, self._disturbances(controls))
        self._elapsed += 1
        return Imagined(self._states, self.system.g(self._states), np.zeros(len(controls), bool))

    def _disturbances(self, controls: Floats) -> Any:
        bounded = self.system.disturbance
        if bounded is None or self.disturbance == "zero":
            return None
        if self.disturbance == "sampled":
            return bounded.sample(self._draws[:, self._scenario, self._elapsed])
        if callable(self.disturbance):
            who = f"The disturbance {name_of(self.disturbance)}"
            return actions_of(self.disturbance(self._states.copy(), controls), len(controls), bounded.size, who)
        return np.broadcast_to(np.array(self.system.worst_disturbance), (len(controls), bounded.size))

    def _draw(self, n: int, steps: int) -> None:
        bounded = self.system.disturbance
        assert bounded is not None
        if self._episodes is None:
            self.begin(np.ones(n, bool))
        assert self._episodes is not None
        shape = (n, self.scenarios, steps, bounded.size)
        if self._draws.shape != shape:
            self._draws, self._stale = np.zeros(shape), np.ones(n, bool)
        for slot in np.flatnonzero(self._stale).tolist():
            stream = np.random.SeedSequence([self._seed, slot, int(self._episodes[slot])])
            self._draws[slot] = np.random.default_rng(stream).random(shape[1:])
        self._stale[:] = False


class TwinModel(Model):
    """A second native environment of the same kind, which imagines what the first one would do.

    Its reward is the safety margin g. It is given the state of the first one (`get_state`, `set_state`) but for the
    generator: the numbers that the first one will draw are nothing that a filter may know.

    An imagined episode that ends is over, so make the twin with a longer time limit where its class has one of its own:
    near the limit nothing would be safe. A `max_episode_steps` goes with the state.

    Args:
        vec: the environment that is filtered, with or without wrappers.
        twin: another one, made of the same arguments. Its wrappers are left out: rows are the observations of the
            environment itself. Who wants the worst case gives it the worst disturbance.
        samples: scenarios, which differ in what the twin draws; 1 where it draws nothing.
        seed: of these draws.

    Raises:
        TypeError: an environment that is not native.
        ValueError: `twin` is the environment itself.
    """

    def __init__(self, vec: VecEnv, twin: VecEnv, *, samples: int = 1, seed: int = 0) -> None:
        real, imagined = vec.unwrapped, twin.unwrapped
        if not (isinstance(real, NativeVecEnv) and isinstance(imagined, NativeVecEnv)):
            raise TypeError(f"The environments are {real} and {imagined}; expected native ones, for their get_state().")
        if real is imagined:
            raise ValueError("twin is the environment itself, which would move: make a second one.")
        self._real, self._twin = real, imagined
        self.scenarios = whole_number("samples", samples, minimum=1)
        self._seed, self._round = whole_number("seed", seed, minimum=0), 0

    def begin(self, slots: Flags) -> None:
        """Draw other numbers from now on."""
        self._round += int(slots.any())

    def start(self, rows: Any, scenario: int, steps: int) -> None:
        """Imagine from where the environment is now; the rows are not looked at."""
        drawn = np.random.SeedSequence([self._seed, self._round, scenario]).generate_state(1, np.uint64)
        self._twin.reset(seed=int(drawn[0] >> np.uint64(1)))
        own = {name: array for name, array in self._twin.get_state().items() if name.startswith("rng.")}
        real = {name: array for name, array in self._real.get_state().items() if not name.startswith("rng.")}
        self._twin.set_state({**real, **own})
        self._over = np.zeros(self._twin.num_envs, bool)

    def step(self, actions: NDArray[Any]) -> Imagined:
        """One step of the twin."""
        result = self._twin.step(actions)
        self._over = self._over | result.dones
        return Imagined(result.observations, result.rewards, self._over)
