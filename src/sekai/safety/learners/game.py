"""`GameLearner`: what learners of two players share, whatever the algorithm.

The controller, whose policy is saved and used by `predict`, wants the value high, the disturbance wants it low. The
information pattern is explicit:

    disturbance_sees_control=True    max over u, min over d(u): the disturbance answers the control. The value is a
                                     lower bound of that of the game in which both move at once.
    disturbance_sees_control=False   both move at once, on the state alone.

Sources: Hsu, Nguyen, Fisac, "ISAACS" (2023), for the two-player avoid operator and its league; Nguyen et al.,
"Gameplay Filters" (2024), for reach-avoid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import maybe_make_env

from sekai.safety.action_box import unit_box
from sekai.safety.arrays import Tensor
from sekai.safety.chain import declared
from sekai.safety.games.joint import joined
from sekai.safety.games.league import RANDOM, ZERO, League, Match, matches
from sekai.safety.games.players import Players, ctrl_action_dim_of
from sekai.safety.learners.base import SafetyLearner
from sekai.safety.steps import MarginStep
from sekai.safety.systems.base import System
from sekai.safety.systems.sets import Bounded
from sekai.spaces.checks import whole_number


class GameLearner(SafetyLearner):
    """The part of a two-player learner that does not depend on the algorithm.

    Args:
        policy, env: as for `SafetyLearner`; observations are a `Box` of one axis. Actions are `(U + D,)` numbers, or
            `Dict(ctrl, dstb)`.
        ctrl_action_dim: U; by default what the environment declares, which it must not contradict.
        disturbance_set: a `BoxSet` or `BallSet`; by default what the environment declares, else the box.
        disturbance_sees_control: the information pattern, see above.
        league_size: how many earlier selves of each player are kept.
        league_share: share of the slots that are for games with others than the two that learn.
        snapshot_every: environment steps between two selves that are kept.
        rest: see `SafetyLearner`.

    Attributes:
        disturbance: the network of the disturbance.
        league: earlier selves and scores.
        matches: who plays whom in which slots.
    """

    players: ClassVar[int] = 2
    disturbance: Any
    league: League
    matches: list[Match]

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        ctrl_action_dim: int | None = None,
        disturbance_set: Bounded | None = None,
        disturbance_sees_control: bool = True,
        league_size: int = 2,
        league_share: float = 0.5,
        snapshot_every: int = 100_000,
        **rest: Any,
    ) -> None:
        if not isinstance(disturbance_sees_control, bool):
            raise TypeError(f"disturbance_sees_control is {disturbance_sees_control!r}; expected True or False.")
        if not 0.0 <= league_share < 1.0:
            raise ValueError(f"league_share is {league_share}; expected a share of the slots, at least 0 and below 1.")
        self.disturbance_sees_control = disturbance_sees_control
        self.league_size = whole_number("league_size", league_size, minimum=0)
        self.league_share = float(league_share)
        self.snapshot_every = whole_number("snapshot_every", snapshot_every, minimum=1)
        self.ctrl_action_dim, self.disturbance_set = ctrl_action_dim, disturbance_set
        self._taken = 0
        self._reached: Tensor | None = None  # whether the target has been reached in the episode of each slot
        if env is not None:
            env = self._wrap_env(maybe_make_env(env, 0))
        if env is not None and rest.get("_init_setup_model", True):  # else a file says it, which is read later
            self.ctrl_action_dim = ctrl_action_dim_of(env, ctrl_action_dim)
            if disturbance_set is None:
                self.disturbance_set = next((value for _, value in declared(env, "disturbance_set")), None)
        super().__init__(policy, env, **rest)

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> Any:
        return joined(SafetyLearner._wrap_env(env, verbose, monitor_wrapper))

    def _require(self, env: Any) -> None:
        super()._require(env)
        if self.ctrl_action_dim is not None:
            ctrl_action_dim_of(env, self.ctrl_action_dim)

    def _setup_model(self) -> None:
        space = self.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise TypeError(f"{type(self).__name__} takes observations of one axis, Box(D,); given {space}.")
        self._players = self._players_of_action()
        self.matches = self._divided()
        super()._setup_model()
        self.disturbance = self._make_disturbance(self._disturbance_observes(), unit_box(self._players.disturbance))
        if self.use_sde:
            with torch.no_grad():  # noise that was drawn with a gradient cannot be copied
                self._networks()[0].reset_noise()
        self.league = League(*self._networks(), self.league_size, self.matches).to(self.device)

    def _players_of_action(self) -> Players:
        assert self.ctrl_action_dim is not None
        return Players(self.action_space, self.ctrl_action_dim, self.disturbance_set, device=self.device)

    def _divided(self) -> list[Match]:
        """Who plays whom in which slots."""
        return matches(self.n_envs, self.league_size, self.league_share)

    def _disturbance_observes(self) -> spaces.Box:
        """Observation space of the disturbance: the observation, and the control where it sees it."""
        size = self.observation_space.shape[0] + (
            self._players.control.shape[0] if self.disturbance_sees_control else 0
        )
        return spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def _make_disturbance(self, observes: spaces.Box, chooses: Any) -> Any:
        """The network of the disturbance."""
        raise NotImplementedError

    def _networks(self) -> tuple[Any, Any]:
        """The networks of both players that a league keeps copies of."""
        raise NotImplementedError

    def _mode_of(self, network: Any, observations: Any) -> Tensor:
        """Choices without noise of a network of either player, within [-1, 1]."""
        raise NotImplementedError

    # ---- who does what -------------------------------------------------------------------------

    def _met(self, observations: Any, controls: Tensor) -> Tensor:
        """What the disturbance observes, `(B, ...)`, for observations and controls within [-1, 1]."""
        seen = self.policy.normalizer(observations) if self.normalize_observations else observations
        return torch.cat([seen.float(), controls], 1) if self.disturbance_sees_control else seen.float()

    def _with_earlier_controllers(self, observations: Any, controls: Tensor) -> Tensor:
        """Controls `(N, U)` of all slots: those of earlier controllers where they play."""
        for match in self.matches:
            if match.controller is not None:
                network = self.league.controllers[match.controller]
                controls[match.slots] = self._mode_of(network, observations[match.slots])
        return controls

    def _with_other_disturbances(self, met: Tensor, chosen: Tensor) -> Tensor:
        """Choices `(N, D)` of all slots: those of other disturbances where they play."""
        for match in self.matches:
            width = match.slots.stop - match.slots.start
            if isinstance(match.disturbance, int):
                network = self.league.disturbances[match.disturbance]
                chosen[match.slots] = self._mode_of(network, met[match.slots])
            elif match.disturbance == ZERO:
                chosen[match.slots] = self._players.nothing(width)
            elif match.disturbance == RANDOM:
                chosen[match.slots] = self._players.random(width)
        return chosen

    def _given(self, controls: Tensor, chosen: Tensor) -> Tensor:
        """What the environment is given, `(N, U + D)`."""
        return torch.cat([self._players.control_box.unscaled(controls), self._players.disturb(chosen)], 1)

    def _setup_learn(
        self, total_timesteps: int, callback: Any = None, reset_num_timesteps: bool = True, *args: Any, **kwargs: Any
    ) -> Any:
        if reset_num_timesteps:
            self._taken = 0
        if reset_num_timesteps or self._last_obs is None:
            self._reached = None  # every episode begins anew
        self._league_seconds, self._counted_from = 0.0, time.perf_counter()
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args, **kwargs)

    # ---- scores --------------------------------------------------------------------------------

    def _see(self, step: MarginStep) -> None:
        super()._see(step)
        with self._timed():
            ended = step.terminated | step.timeouts
            won = step.g >= 0
            if step.l is not None:
                before = self._reached
                if before is None or len(before) != len(won):
                    before = torch.zeros_like(won)
                won = before.to(won.device) | (won & (step.l >= 0))
                self._reached = won & ~ended
            self.league.count(ended, won)

    def _end_update(self) -> None:
        """After the updates of a rollout: keep the players where it is time to, and log the scores."""
        with self._timed():
            if self.num_timesteps - self._taken >= self.snapshot_every:
                self.league.take(*self._networks(), self.num_timesteps)
                self._taken = self.num_timesteps
            for name, rate in self.league.win_rates().items():
                self.logger.record(f"league/wins_{name}", rate)
        now = time.perf_counter()
        self.logger.record("time/league_share", self._league_seconds / max(now - self._counted_from, 1e-9))
        self._league_seconds, self._counted_from = 0.0, now

    _league_seconds: float = 0.0
    _counted_from: float = 0.0

    @contextmanager
    def _timed(self) -> Iterator[None]:
        before = time.perf_counter()
        yield
        self._league_seconds += time.perf_counter() - before

    # ---- what users ask ------------------------------------------------------------------------

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """Controls `(..., U)` in units of the environment, without a disturbance."""
        chosen, state = self.policy.predict(observation, state, episode_start, deterministic)
        return self._players.control_box.unscaled(torch.as_tensor(chosen, device=self.device)).cpu().numpy(), state

    def predict_disturbance(self, observations: Any, controls: Any, *, past: int | None = None) -> Any:
        """Disturbances `(N, D)` in units of the environment that answer these, without noise.

        Args:
            observations: `(N, ...)`.
            controls: `(N, U)` in units of the environment.
            past: index of an earlier self; None for the one that has learned last.
        """
        network = self._networks()[1] if past is None else self.league.disturbances[past]
        with torch.no_grad():
            rows = torch.as_tensor(np.asarray(observations, np.float32), device=self.device)
            seen = self._players.control_box.scaled(torch.as_tensor(np.asarray(controls), device=self.device))
            chosen = self._mode_of(network, self._met(rows, seen))
            return self._players.disturb(chosen).cpu().numpy().astype(np.float64)

    def opponents(self, system: System) -> dict[str, Callable[[Any, Any], Any]]:
        """The disturbances of the league by name, as functions of states `(N, S)` and controls `(N, U)`.

        `current` and the earlier ones that have been kept; zero and random ones, which need no learner, are left out.
        """
        kept = [i for i, steps in enumerate(self.league.born[1].tolist()) if steps >= 0]
        names: dict[str, int | None] = {"current": None, **{f"past_disturbance_{i}": i for i in kept}}
        return {name: partial(_answer, self, system, past) for name, past in names.items()}

    # ---- saving --------------------------------------------------------------------------------

    def learned_networks(self) -> dict[str, Any]:
        """Those of both players."""
        return {**super().learned_networks(), "disturbance": self.disturbance}

    def take_weights(self, source: SafetyLearner) -> None:
        """See `SafetyLearner.take_weights`; earlier selves begin as copies of the two."""
        super().take_weights(source)
        self.league.begin(*self._networks())

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """See `SafetyLearner.save`."""
        if self._reached is not None:
            self._reached = self._reached.cpu()
        super().save(path, exclude, include)

    def _excluded_save_params(self) -> list[str]:
        names = ["disturbance", "league", "_players", "matches", "_league_seconds", "_counted_from"]
        return [*super()._excluded_save_params(), *names]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        states, others = super()._get_torch_save_params()
        return [*states, "disturbance", "disturbance.optimizer", "league"], others


def _answer(learner: GameLearner, system: System, past: int | None, states: Any, controls: Any) -> Any:
    return learner.predict_disturbance(system.observe(states), controls, past=past)
