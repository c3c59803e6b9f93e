"""`best_response`: a fresh disturbance, trained against one controller that does not learn.

What a learned disturbance does not find it cannot bring about, so a value that has been learned against one is worth
what was tried to break it: a certificate states how many steps a best response had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, REACH_AVOID, Mode, check_mode
from sekai.safety.games.league import Match
from sekai.safety.learners.ppo_game import PpoGame

Controller = Callable[[Any], Any]


class _Response(PpoGame):
    """PPO of the disturbance alone."""

    def __init__(self, policy: Any, env: Any, *, controller: Controller | None = None, **rest: Any) -> None:
        self._controller = controller
        super().__init__(policy, env, league_size=0, **rest)

    def _divided(self) -> list[Match]:
        return [Match("best_response", 0, None, slice(0, self.n_envs))]

    def _with_earlier_controllers(self, observations: Any, controls: Tensor) -> Tensor:
        if self._controller is None:
            raise ValueError("A response that was loaded has no controller to learn against: call best_response anew.")
        given = np.asarray(self._controller(observations.cpu().numpy()))
        if given.shape != controls.shape:
            raise ValueError(f"The controller gave controls of shape {given.shape}; expected {tuple(controls.shape)}.")
        return self._players.control_box.scaled(torch.as_tensor(given, device=self.device))

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_controller"]


class AvoidResponse(_Response):
    """A disturbance that brings failure about."""

    mode = AVOID


class ReachAvoidResponse(_Response):
    """A disturbance that keeps off the target, or brings failure about before."""

    mode = REACH_AVOID


def best_response(
    controller: Any, env: Any, *, mode: Mode, steps: int, seed: int | None = 0, callback: Any = None, **options: Any
) -> PpoGame:
    """Train a disturbance against a controller.

    Args:
        controller: a learner, whose deterministic policy is played, or a function of observations `(N, ...)` that gives
            controls `(N, U)` in units of the environment.
        env: of two players, see `GameLearner`.
        mode: `"avoid"` or `"reach-avoid"`.
        steps: environment steps, the budget.
        seed: of the networks and the environment.
        callback: of SB3, as for `learn`.
        options: of `GameLearner` and SB3's PPO; the device is by default the CPU, and there is no league.

    Returns:
        A learner whose `predict_disturbance` and `opponents` are those of the response; its own controller has learned
        nothing.

    Raises:
        TypeError: `controller` is neither.
        ValueError: it gives controls of another shape.
    """
    if hasattr(controller, "predict"):
        learner = controller

        def act(observations: Any) -> Any:
            return learner.predict(observations, deterministic=True)[0]

    elif callable(controller):
        act = controller
    else:
        raise TypeError(f"controller is {controller!r}; expected a learner, or a function of observations.")
    cls = AvoidResponse if check_mode(mode) == AVOID else ReachAvoidResponse
    response = cls("MlpPolicy", env, controller=act, seed=seed, **{"device": "cpu", **options})
    response.learn(steps, callback=callback)
    return response
