"""`from_pettingzoo`: the agents of PettingZoo parallel environments as slots of a vector environment.

One episode of a copy is one episode of all its agents, and those who end first wait for the others. Of agents a and b,
whose episodes end after two and three steps, the rows are

    call         1      2            3                    4                    5
    same_step    STEP   TERMINATED   RESET (a')           STEP                 TERMINATED
                 STEP   STEP         TERMINATED (b')      STEP                 STEP
    next_step    STEP   TERMINATED   FROZEN               RESET (a')           STEP
                 STEP   STEP         TERMINATED           RESET (b')           STEP
    disabled     STEP   TERMINATED   FROZEN               FROZEN               FROZEN, until reset()
                 STEP   STEP         TERMINATED           FROZEN               FROZEN

a' and b': the observation of that row is the first of the next episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from sekai.compat.parallel import ParallelCopy, check_parallel
from sekai.core.results import ResetResult
from sekai.core.slots import PHASE_AFTER_END, AutoresetMode, Call, Phase, calls_of, kinds_of
from sekai.seeding import VecSeed, spawn_seeds
from sekai.spaces import copy_batch, empty_batch, finish_batch, iterate, read_row, row_writer
from sekai.vector import Infos, VecResetResult, VecStepResult
from sekai.vector.actions import check_actions
from sekai.vector.base import SlotVecEnv
from sekai.vector.blame import raise_first
from sekai.vector.building import check_factories
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.infos import same_value
from sekai.vector.requests import ResetRequest, reset_request


def from_pettingzoo(env: Any, *, autoreset: Any = True) -> FromPettingZoo:
    """A sekai vector environment over PettingZoo parallel environments, with one slot per agent.

    Slot `i` is agent `possible_agents[i]`; with several copies of `K` agents each, slot `k * K + i` is that agent of
    copy `k`. An agent that has ended while others go on is frozen: it is given no action, and its rows, of kind FROZEN,
    repeat its last one. A copy is reset as a whole, when all its agents have ended:

    - `"same_step"`: in the call in which the last ones end. Their rows are that end, as in every vector environment;
      the rows of agents that had ended before are the first of their next episode, of kind RESET.
    - `"next_step"`: by the next call, whose rows are of kind RESET for all agents.
    - `"disabled"`: by `reset`, whose mask takes all agents of a copy or none. A `Collector` needs `restart="all"` where
      agents do not end together.

    Only `valid` rows are transitions: calls times slots counts waiting agents too. An int seed becomes one independent
    seed per copy; lists of seeds and of options have one entry per slot, equal within a copy. Attributes and frames are
    those of the copy, once for each of its agents. After an exception in a copy its slots need a reset; the other
    copies finish the call.

    Args:
        env: a parallel environment, or a list of factories, one per copy.
        autoreset: True or `"same_step"`, `"next_step"`, False or `"disabled"`, see `AutoresetMode`.

    Raises:
        TypeError: no parallel environment (an AEC environment, a single one, a factory that stands in no list).
        ValueError: no factory, one environment twice, no agents, or other agents in one copy than in another.
        SpaceMismatch: agents whose spaces differ; the message names the first.

        >>> vec = from_pettingzoo([lambda: pettingzoo.make("parallel", "classic/rps-v2")] * 4)
    """
    with ExitStack() as built:
        if hasattr(env, "possible_agents") or not (callable(env) or isinstance(env, Iterable)):
            envs = [check_parallel(env, "env")]
        else:
            envs = _built(env, built)
        vec = FromPettingZoo(envs, autoreset=autoreset)
        built.pop_all()
    return vec


def _built(env_fns: Any, built: ExitStack) -> list[Any]:
    """What the factories return; closed by `built`, should it come to that."""
    if not isinstance(env_fns, Iterable):
        raise TypeError(f"env is {env_fns!r}; give factories in a list, one per copy: [factory] * 4.")
    envs = []
    for number, factory in enumerate(check_factories(env_fns)):
        env = factory()
        if hasattr(env, "close"):
            built.callback(env.close)
        envs.append(check_parallel(env, f"What env_fns[{number}] returned"))
    return envs


class FromPettingZoo(SlotVecEnv):
    """Made by `from_pettingzoo`.

    Attributes:
        envs: the parallel environments.
        agents: the agent of each slot.
    """

    def __init__(self, envs: Sequence[Any], *, autoreset: Any = True) -> None:
        agents = list(envs[0].possible_agents)
        _check_alike(envs, agents)
        spaces = envs[0].observation_space(agents[0]), envs[0].action_space(agents[0])
        self._copies = [ParallelCopy(env, number, agents) for number, env in enumerate(envs)]
        for copy in self._copies:
            copy.check_spaces(spaces, f"agent {agents[0]!r} (sub-env 0)")
        super().__init__(len(envs) * len(agents), *spaces, autoreset=autoreset)
        self.envs, self.agents = list(envs), agents * len(envs)
        self.metadata = {**envs[0].metadata, "autoreset_mode": self.autoreset}
        self.render_mode = getattr(envs[0], "render_mode", None)  # no part of PettingZoo's API
        self._batch = empty_batch(self.observation_space, self.num_envs)  # the latest rows
        self._write = row_writer(self.observation_space)
        # columns of the call in progress; flags also of the latest row of each slot
        self._flags = np.zeros((2, self.num_envs), bool)
        self._rewards = np.zeros(self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        self._calls = np.zeros(self.num_envs, np.int8)
        self._infos: list[dict[str, Any]] = []

    # ---- reset ---------------------------------------------------------------------------------

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Start new episodes; see `VecEnv.reset`.

        Raises:
            ValueError: a mask, seeds or options that tell agents of one copy apart; nothing moves.
        """
        self._require_open()
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_rest_started(request.mask)
        chosen = [copy for copy in self._copies if self._one(copy, request.mask.tolist(), "mask")]
        arguments = self._arguments(chosen, seed, request)
        self.lose_rows(request.mask)  # until the caller has the first rows
        self._infos = [{} for _ in range(self.num_envs)]
        self._each(chosen, lambda copy: self._began(copy.reset(*arguments[copy.slots.start])))
        result = VecResetResult(self._observations(), Infos.of(self._infos), self.phase >= Phase.WAITING)
        self._lost = self._lost & ~request.mask
        return result

    def _arguments(
        self, chosen: list[ParallelCopy], seed: VecSeed, request: ResetRequest
    ) -> dict[int, tuple[Any, Any]]:
        """The seed and the options of each copy, by its first slot."""
        seeds: Any = request.seeds
        if isinstance(seed, (int, np.integer)):
            seeds = np.repeat(spawn_seeds(int(seed), len(self._copies)), len(self._copies[0].slots)).tolist()
        for slot in request.slots:
            if isinstance(seeds[slot], np.random.Generator):
                raise TypeError(f"seed[{slot}] is a generator; PettingZoo takes ints.")
        return {
            copy.slots.start: (self._one(copy, seeds, "seed"), self._one(copy, request.options, "options"))
            for copy in chosen
        }

    def _one(self, copy: ParallelCopy, values: Sequence[Any], what: str) -> Any:
        """What all agents of a copy were given."""
        first = values[copy.slots.start]
        for slot in copy.slots:
            if not same_value(values[slot], first):
                advice = " (a Collector does so with restart='all')" if what == "mask" else ""
                raise ValueError(
                    f"{what} is {values[slot]!r} for agent {copy.agent(slot)!r} (sub-env {slot}) and {first!r} for "
                    f"agent {copy.agents[0]!r} (sub-env {copy.slots.start}) of the same environment: give sub-envs "
                    f"{copy.slots.start} to {copy.slots[-1]} the same{advice}."
                )
        return first

    # ---- step ----------------------------------------------------------------------------------

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step every slot; see `VecEnv.step`. An exception of one copy lets the others finish and is raised then."""
        self._require_open()
        self._require_started()
        batch = list(iterate(self.action_space, check_actions(self.action_space, actions, self.num_envs)))
        self._note_unfinished()
        n = self.num_envs
        self._calls = calls_of(self.phase)
        self._flags = self._flags & (self._calls == Call.HOLD)  # frozen slots keep them
        self._rewards, self._ended, self._infos = np.zeros(n), np.zeros(n, bool), [{} for _ in range(n)]
        self._unfinished = np.zeros(n, bool)
        moving = [copy for copy in self._copies if (self._calls[copy.slots] != Call.HOLD).any()]
        self._each(moving, lambda copy: self._advance(copy, batch))
        lost, self._lost = self._lost, self._none_lost
        terminated, truncated = self._flags.copy()
        return VecStepResult(
            self._observations(),
            self._rewards,
            terminated,
            truncated,
            Infos.of(self._infos),
            kind=kinds_of(self._calls, terminated, truncated, lost),
            ended=self._ended,
            space=self.observation_space,
        )

    def _each(self, copies: Iterable[ParallelCopy], move: Callable[[ParallelCopy], None]) -> None:
        """Move some copies; one in which that fails needs a reset."""
        failures: dict[int, Exception] = {}
        for copy in copies:
            self.phase[copy.slots] = Phase.NEW  # until it has succeeded
            try:
                move(copy)
            except Exception as error:
                failures.update(dict.fromkeys(copy.slots, error))
        if failures:
            raise_first(failures, "needs a reset")

    def _advance(self, copy: ParallelCopy, actions: list[Any]) -> None:
        """Do to a copy what the call is."""
        acting = [slot for slot in copy.slots if self._calls[slot] == Call.STEP]
        if not acting:
            self._unfinished[copy.slots] = True
            self._began(copy.reset(None, None))
            return
        self._unfinished[acting] = True
        for slot, result in copy.step({slot: actions[slot] for slot in acting}).items():
            self._write(self._batch, slot, result.observation)
            self._rewards[slot], self._infos[slot] = result.reward, result.info
            self._flags[:, slot] = result.terminated, result.truncated
        done = self._flags[0] | self._flags[1]
        self._ended[acting] = done[acting]
        if not done[copy.slots].all():
            self.phase[copy.slots] = np.where(done[copy.slots], Phase.FROZEN, Phase.LIVE)
        elif self.autoreset is AutoresetMode.SAME_STEP:
            self._restart(copy, [slot for slot in acting if done[slot]])
        else:
            self.phase[copy.slots] = PHASE_AFTER_END[self.autoreset]

    def _restart(self, copy: ParallelCopy, ended: list[int]) -> None:
        """Reset a copy in the call in which its last agents have ended."""
        flags, ends = self._flags[:, ended], {slot: self._infos[slot] for slot in ended}
        for slot, info in ends.items():
            final_info = dict(info)
            info.update(final_observation=read_row(self.observation_space, self._batch, slot), final_info=final_info)
        self._unfinished[copy.slots] = True
        self._began(copy.reset(None, None))
        self._calls[copy.slots] = Call.RESET
        self._calls[ended], self._flags[:, ended] = Call.STEP, flags
        for slot, info in ends.items():
            info["reset_info"], self._infos[slot] = self._infos[slot], info

    def _began(self, first: dict[int, ResetResult]) -> None:
        """Take the first rows of an episode."""
        slots = list(first)
        for slot, (observation, info) in first.items():
            self._write(self._batch, slot, observation)
            self._infos[slot] = info
        self._flags[:, slots] = False
        self.phase[slots] = Phase.LIVE
        self._episodes_began(slots)

    def _observations(self) -> Any:
        """The latest rows, in a batch of their own."""
        return finish_batch(self.observation_space, copy_batch(self.observation_space, self._batch))

    # ---- environments --------------------------------------------------------------------------

    def _asked(self, ask: Callable[[ParallelCopy], Any]) -> list[Any]:
        """The answer of each copy, once for each of its agents."""
        self._require_open()
        return [answer for copy in self._copies for answer in [ask(copy)] * len(copy.slots)]

    def get_attr(self, name: str) -> list[Any]:
        """`name` of the environment of each slot, looked for through its layers."""
        return self._asked(lambda copy: copy.find(name)[1])

    def set_attr(self, name: str, value: Any) -> None:
        """Set an existing attribute: one value for every environment, or a list of `num_envs`, equal within a copy."""
        owners = self._asked(lambda copy: copy.find(name)[0])
        values = self._slot_values(value)
        chosen = [self._one(copy, values, name) for copy in self._copies]
        for copy, one in zip(self._copies, chosen, strict=True):
            setattr(owners[copy.slots.start], name, one)

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of every environment, once (or read the attribute when it is not callable)."""

        def one(copy: ParallelCopy) -> Any:
            attribute = copy.find(name)[1]
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return self._asked(one)

    def layers(self) -> list[str]:
        """This class, then the layers of the first environment."""
        return [type(self).__name__, *(type(layer).__name__ for layer in self._copies[0].layers())]

    def close(self) -> None:
        """Close every environment."""
        if self.closed:
            return
        self.closed = True
        with ExitStack() as closing:
            for env in self.envs:
                closing.callback(env.close)


def _check_alike(envs: Sequence[Any], agents: list[Any]) -> None:
    """Raise `ValueError` unless the copies are different objects with the same agents."""
    known: dict[int, int] = {}
    for number, env in enumerate(envs):
        other = known.setdefault(id(env.unwrapped), number)
        if other != number:
            raise ValueError(
                f"env_fns[{number}] returned the environment of env_fns[{other}] again; build a new one each time."
            )
        if list(env.possible_agents) != agents:
            raise ValueError(
                f"The agents of copy {number} are {list(env.possible_agents)}; expected {agents}, those of copy 0."
            )
