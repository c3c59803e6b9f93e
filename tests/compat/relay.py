"""`Relay`: an identity-coded PettingZoo environment whose agents end at different times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

import sekai

OBSERVATIONS = sekai.Box(0.0, 1e6, (3,), np.float64)


class Relay(ParallelEnv[str, Any, int]):
    """After `t` steps of episode `e` agent number `i` sees `(i, e, t)`; its reward is `10 * t + action`.

    As `sekai.testing.CodedEnv` for each agent, with one array and one dict per agent for all of its steps. Episodes
    count from 100 times `options["at"]` on where that is given.
    """

    metadata: dict[str, Any] = {"name": "relay", "render_modes": []}  # noqa: RUF012  # as PettingZoo has it
    render_mode = "ansi"

    def __init__(self, lengths: Sequence[int] = (2, 4, 3), endings: Sequence[str] | None = None) -> None:
        self.possible_agents = [f"runner_{i}" for i in range(len(lengths))]
        self.agents: list[str] = []
        self.lengths = dict(zip(self.possible_agents, lengths, strict=True))
        self.endings = dict(zip(self.possible_agents, endings or ["terminated"] * len(lengths), strict=True))
        self.spaces = dict.fromkeys(self.possible_agents, (OBSERVATIONS, sekai.Discrete(10)))
        self.episode, self.t, self.closed = -1, 0, 0
        self.seeds: list[Any] = []
        self.asked: list[dict[str, int]] = []
        self._arrays = {agent: np.zeros(3) for agent in self.possible_agents}
        self._infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self.spaces[agent][0]

    def action_space(self, agent: str) -> Any:
        return self.spaces[agent][1]

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self.agents, self.t = list(self.possible_agents), 0
        self.episode = 100 * options["at"] if options and "at" in options else self.episode + 1
        return self._seen()

    def step(self, actions: dict[str, int]) -> Any:
        self.asked.append(dict(actions))
        assert list(actions) == self.agents, "actions of exactly the agents that are in the episode, in their order"
        self.t += 1
        observations, infos = self._seen()
        rewards = {agent: 10 * self.t + int(action) for agent, action in actions.items()}
        over = {agent: self.t >= self.lengths[agent] for agent in self.agents}
        terminated = {agent: done and self.endings[agent] != "truncated" for agent, done in over.items()}
        truncated = {agent: done and self.endings[agent] != "terminated" for agent, done in over.items()}
        self.agents = [agent for agent in self.agents if not over[agent]]
        return observations, rewards, terminated, truncated, infos

    def _seen(self) -> Any:
        for i, agent in enumerate(self.possible_agents):
            self._arrays[agent][:] = (i, self.episode, self.t)
            self._infos[agent]["t"] = self.t
        return tuple({agent: whole[agent] for agent in self.agents} for whole in (self._arrays, self._infos))

    def render(self) -> str:
        return f"step {self.t}"

    def close(self) -> None:
        self.closed += 1
