"""One PettingZoo parallel environment, held to its API: what agents are told, by slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium

from sekai.core.env import missing_attribute
from sekai.core.results import ResetResult, StepResult
from sekai.core.snapshot import snapshot
from sekai.errors import InvalidObservation, SpaceMismatch
from sekai.spaces import describe_mismatch
from sekai.vector.blame import blaming
from sekai.vector.local import as_info, as_reward

_API = ("possible_agents", "observation_space", "action_space", "reset", "step", "unwrapped")
_COLUMNS = ("observation", "reward", "termination", "truncation")


def check_parallel(env: Any, what: str) -> Any:
    """`env`, held to be a parallel environment with the same agents in every episode.

    Args:
        env: it.
        what: what the error calls it.

    Raises:
        TypeError: it is none; the message says what to do with what was given.
        ValueError: it has no agents.
    """
    advice = "a pettingzoo.ParallelEnv has possible_agents, observation_space(agent), action_space(agent), reset, step"
    if isinstance(env, gymnasium.Env):
        advice = "a single environment goes into sekai.SyncVecEnv"
    elif hasattr(env, "agent_iter"):
        advice = "of an AEC environment make a parallel one, pettingzoo.utils.aec_to_parallel(env)"
    elif all(hasattr(env, name) for name in _API):
        if env.possible_agents:
            return env
        raise ValueError(f"{what} is {env}, whose possible_agents are empty; expected at least one, each a slot.")
    raise TypeError(f"{what} is {env!r} ({type(env).__name__}); expected a parallel environment: {advice}.")


class ParallelCopy:
    """One copy of a parallel environment.

    Args:
        env: the environment.
        number: of the copy.
        agents: one per slot.

    Attributes:
        env, agents: as given.
        slots: the slots of its agents, in their order.
    """

    def __init__(self, env: Any, number: int, agents: list[Any]) -> None:
        self.env, self.agents = env, agents
        self.slots = range(number * len(agents), (number + 1) * len(agents))

    def agent(self, slot: int) -> Any:
        """The agent of a slot."""
        return self.agents[slot - self.slots.start]

    def check_spaces(self, spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]], whose: str) -> None:
        """Raise `SpaceMismatch` where the spaces of an agent are not these two, of observations and of actions."""
        for slot in self.slots:
            agent = self.agent(slot)
            given = self.env.observation_space(agent), self.env.action_space(agent)
            for kind, expected, space in zip(("observation", "action"), spaces, given, strict=True):
                problem = describe_mismatch(expected, space)
                if problem is not None:
                    raise SpaceMismatch(
                        f"The {kind} space of agent {agent!r} (sub-env {slot}) differs from that of {whose}: {problem} "
                        "All agents are slots of one vector environment: pad their observations and actions to the "
                        "same spaces first."
                    )

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> dict[int, ResetResult]:
        """Begin an episode; what each agent sees first, by slot.

        Raises:
            InvalidObservation: an agent is missing from the episode.
        """
        observations, infos = self.env.reset(seed=seed, options=options)
        for slot in self.slots:
            agent = self.agent(slot)
            if agent not in self.env.agents or agent not in observations:
                raise InvalidObservation(
                    f"{self.env}.reset() began an episode without agent {agent!r} (sub-env {slot}): its agents are "
                    f"{list(self.env.agents)}, with observations for {list(observations)}; expected all of "
                    "possible_agents, since every slot begins an episode."
                )
        return {slot: ResetResult(observations[self.agent(slot)], self._info(infos, slot)) for slot in self.slots}

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult]:
        """Step the agents that are still in the episode; what each is told, by slot.

        Args:
            actions: of these agents, by slot.

        Raises:
            InvalidObservation: the environment says nothing of one of them, lets go of one that has not ended, or
                keeps one that has.
        """
        *columns, infos = self.env.step({self.agent(slot): action for slot, action in actions.items()})
        results = {}
        for slot in actions:
            agent = self.agent(slot)
            for name, column in zip(_COLUMNS, columns, strict=True):
                if agent not in column:
                    raise InvalidObservation(
                        f"{self.env}.step() returned no {name} of agent {agent!r} (sub-env {slot}), which was given an "
                        f"action; it has {list(column)}."
                    )
            with blaming(slot):
                observation, reward, terminated, truncated = (column[agent] for column in columns)
                info = self._info(infos, slot)
                results[slot] = StepResult(
                    observation, as_reward(reward, slot), bool(terminated), bool(truncated), info
                )
        self._check_agents({slot for slot, result in results.items() if not (result.terminated or result.truncated)})
        return results

    def _check_agents(self, live: set[int]) -> None:
        """Whether those who go on are those whose episode goes on; after the last end `env.agents` is not looked at."""
        for slot in self.slots if live else ():
            there = self.agent(slot) in self.env.agents
            if there != (slot in live):
                happened = "has ended and is still" if there else "was neither terminated nor truncated and is no more"
                raise InvalidObservation(
                    f"Agent {self.agent(slot)!r} of {self.env} (sub-env {slot}) {happened} in env.agents, which is "
                    f"{list(self.env.agents)}; expected the agents whose episode goes on."
                )

    def _info(self, infos: Mapping[Any, Any], slot: int) -> dict[str, Any]:
        """The info of an agent, a copy; many environments leave it out where there is nothing to say."""
        info: dict[str, Any] = snapshot(as_info(infos.get(self.agent(slot), {}), slot))
        return info

    def layers(self) -> Iterator[Any]:
        """The environment and what PettingZoo's wrappers and conversions hold, outermost first."""
        env = self.env
        while hasattr(env, "possible_agents"):
            yield env
            held = vars(env)
            env = held.get("env", held.get("aec_env"))

    def find(self, name: str) -> tuple[Any, Any]:
        """The layer that has an attribute itself, and does not hand on that of the next one, and its value.

        Raises:
            AttributeError: none has it; the message lists close matches.
        """
        layers = list(self.layers())
        for layer in layers:
            if name in vars(layer) or hasattr(type(layer), name):
                return layer, getattr(layer, name)
        raise missing_attribute(name, (entry for layer in layers for entry in dir(layer)), self.env)
