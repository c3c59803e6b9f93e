"""`MarginStep`: what a learner sees of one step, and `ArrayStepper`, which takes it from a NumPy environment.

Learners know one interface, in tensors; where the numbers come from is decided here and in `sekai.safety.tensor`.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from sekai.safety.arrays import Tensor
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.chain import changes_actions

#: where the action that was executed stands in an info
EXECUTED_KEY = "executed_action"


class MarginStep(NamedTuple):
    """One step of N slots.

    Attributes:
        observations: of the next decision, `(N, ...)`: where an episode ended, the first of the next one.
        g: safety margins of the states after the step, float `(N,)`.
        l: target margins of the same states, `(N,)`; None in avoid.
        terminated: bool `(N,)`.
        timeouts: bool `(N,)`, truncated and not terminated.
        final_observations: `(slots, rows)`: where a timeout stood, and the last observation there; None where it is not
            known.
        infos: one dict per slot, empty where the environment gives none.
        executed: actions as the environment says it executed them, `(N, A)` in the units of its action space; None
            where it does not say.
    """

    observations: Any
    g: Tensor
    l: Tensor | None  # noqa: E741
    terminated: Tensor
    timeouts: Tensor
    final_observations: tuple[Tensor, Any] | None
    infos: list[dict[str, Any]]
    executed: Tensor | None = None


class Stepper(Protocol):
    """Steps the environment of a learner."""

    def step(self, actions: Tensor) -> MarginStep:
        """One step; `actions` are in the units of the environment."""
        ...


class RewardWatch:
    """Warns of rewards that are no margins, of each kind once in its life.

    Args:
        mode: of the learner.
        declared: whether the environment says that its rewards are margins (`provides_l`), and so what its ends are.

    Warns:
        UserWarning: by `see`: a reward below 0 in an episode that goes on; in an avoid environment that says nothing,
            one of at least 0 in a step that terminates.
    """

    def __init__(self, mode: Mode, *, declared: bool) -> None:
        self._goes_on = True
        self._ends = mode == AVOID and not declared

    def see(self, g: Any, terminated: Any) -> None:
        """Look at the rewards and the ends of a step, `(N,)` each."""
        failed = g < 0
        if self._goes_on and (failed & ~terminated).any():
            self._goes_on = False
            _warn("below 0, and its episode has not terminated", g, failed & ~terminated)
        if self._ends and (terminated & ~failed).any():
            self._ends = False
            _warn("not below 0, and its episode has terminated", g, terminated & ~failed)


def _warn(seen: str, g: Any, where: Any) -> None:
    slot = np.flatnonzero(where)[0]
    warnings.warn(
        f"The reward of sub-env {slot} is {g[slot]:.4g}, {seen}. A safety learner takes rewards for margins g, and g < "
        "0 for a failure, which terminates: are they? check_safety_env of sekai.safety.contract looks closer, and "
        "MarginWrapper makes margins.",
        stacklevel=2,
    )


class ArrayStepper:
    """The steps of a Stable-Baselines3 vector environment.

    Args:
        env: reward is g, `info["l_x"]` is l, `info["TimeLimit.truncated"]` says that an end was a timeout, and
            `info["executed_action"]` what was executed, unless a layer around the environment rescales actions.
        mode: of the learner; an avoid learner does not look at l.
        device: of the tensors.
        finals: whether the last observations of timeouts are wanted.
        executed: whether the actions that were executed are.
        watch: looks at the rewards.

    Raises:
        LookupError: by `step`: a reach-avoid step without l, or an executed action of some slots only; the message
            names the slot.
        ValueError: by `step`: a margin that is not finite, or a timeout whose last observation is missing.
    """

    def __init__(
        self, env: Any, mode: Mode, device: Any, *, finals: bool, watch: RewardWatch, executed: bool = False
    ) -> None:
        self._env, self._device, self._finals = env, device, finals
        self._has_target = mode == REACH_AVOID
        self._reads_executed = executed and not changes_actions(env)
        self._watch = watch

    def step(self, actions: Tensor) -> MarginStep:
        """One step of all slots."""
        observations, rewards, dones, infos = self._env.step(actions.cpu().numpy())
        g = _finite("The reward, which is the margin g,", rewards)
        ended = np.flatnonzero(dones).tolist()
        timeouts = np.zeros(len(dones), bool)
        for slot in ended:
            timeouts[slot] = infos[slot].get("TimeLimit.truncated", False)
        terminated = dones & ~timeouts
        self._watch.see(g, terminated)
        margins = None
        if self._has_target:
            missing = [slot for slot, info in enumerate(infos) if "l_x" not in info]
            if missing:
                raise LookupError(
                    f"The info of sub-env {missing[0]} has no 'l_x' ({len(missing)} of {len(infos)} have none). A "
                    "reach-avoid learner needs the target margin with every step; an avoid task is for Safety learners."
                )
            margins = self._tensor(_finite("info['l_x']", np.array([info["l_x"] for info in infos])))
        return MarginStep(
            observations,
            self._tensor(g),
            margins,
            torch.as_tensor(terminated, device=self._device),
            torch.as_tensor(timeouts, device=self._device),
            self._final_observations(np.flatnonzero(timeouts), infos) if self._finals else None,
            infos,
            self._executed(infos) if self._reads_executed else None,
        )

    def _executed(self, infos: list[dict[str, Any]]) -> Tensor | None:
        given = [info[EXECUTED_KEY] for info in infos if EXECUTED_KEY in info]
        if not given:
            return None
        if len(given) < len(infos):
            slot = next(slot for slot, info in enumerate(infos) if EXECUTED_KEY not in info)
            raise LookupError(f"The info of sub-env {slot} has no {EXECUTED_KEY!r}, and that of others has one.")
        return torch.as_tensor(np.array(given), device=self._device)

    def _tensor(self, numbers: Any) -> Tensor:
        return torch.as_tensor(numbers, dtype=torch.float32, device=self._device)

    def _final_observations(self, slots: Any, infos: list[dict[str, Any]]) -> tuple[Tensor, Any] | None:
        if not len(slots):
            return None
        missing = [slot for slot in slots.tolist() if infos[slot].get("terminal_observation") is None]
        if missing:
            raise ValueError(
                f"bootstrap_on_timeout=True needs the last observation of every timeout, and the info of sub-env "
                f"{missing[0]} has no 'terminal_observation': leave it False, or use an environment that gives it."
            )
        rows = [infos[slot]["terminal_observation"] for slot in slots.tolist()]
        batch: Any = (
            {key: np.stack([row[key] for row in rows]) for key in rows[0]}
            if isinstance(rows[0], dict)
            else np.stack(rows)
        )
        return torch.as_tensor(slots, device=self._device), batch


def _finite(what: str, numbers: Any) -> Any:
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(f"{what} of sub-env {bad[0]} is {numbers[bad[0]]}; expected a finite number.")
    return numbers
