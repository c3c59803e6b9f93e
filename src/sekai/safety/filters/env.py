"""`FilteredEnv`: a vector environment in which only what a filter lets through is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.core.slots import RowKind
from sekai.errors import ResetRequired
from sekai.safety.filters.answers import Flags
from sekai.safety.filters.shield import Decision, Shield
from sekai.spaces import copy_batch
from sekai.vector import Infos, VecEnv, VecResetResult, VecStepResult, VecWrapper
from sekai.vector.actions import check_actions
from sekai.vector.infos import Part
from sekai.vector.observing import acted_on

EXECUTED, INTERVENED = "executed_action", "intervened"


class FilteredEnv(VecWrapper):
    """Filter the actions of every slot.

    Two keys are added to the infos of transitions:

    - `executed_action`, float64 `(U,)`: what was executed, in the units of the action space. Off-policy safety learners
      learn from it. Where the environment says itself what it executed, that stays.
    - `intervened`, bool: whether the filter had another action executed than the one asked for. An action outside the
      box that is only brought to its bounds is none.

    Rewards and ends are those of the environment. `send` and `recv` are refused: a filter decides for all slots.

    Args:
        venv: the vector environment to wrap, with the action space of the filter.
        shield: the filter; it is for this environment alone.
        states: what the filter reads, asked before each step: `lambda: vec.unwrapped.states` for the exact states of a
            `SafetyVecEnv`. By default the latest observations, as `venv` hands them out.

    Raises:
        TypeError: `shield` is no `Shield`.
        ValueError: another action space than that of the filter.
        ResetRequired: by `step`, where rows were lost: a filter cannot judge what it has not seen.
    """

    def __init__(self, venv: VecEnv, shield: Shield, *, states: Callable[[], Any] | None = None) -> None:
        super().__init__(venv)
        if not isinstance(shield, Shield):
            raise TypeError(f"shield is {shield!r} ({type(shield).__name__}); expected a Shield.")
        if shield.space != venv.action_space:
            raise ValueError(
                f"The filter is for actions of {shield.space}; those of {venv} are of {venv.action_space}."
            )
        self.shield, self._states = shield, states
        self._rows: Any = None  # the latest observations
        self._active = np.zeros(self.num_envs, bool)  # slots whose row is one to act on
        self._decision: Decision | None = None

    def before_step(self, actions: Any) -> Any:
        """What is executed; the latches move once the step has succeeded."""
        if self.venv.busy or self._rows is None:
            return actions  # to be refused there
        lost = self.venv.lost_rows
        if lost.any():
            raise ResetRequired(
                f"The latest rows of sub-envs {np.flatnonzero(lost).tolist()} were never seen, since an earlier call "
                "failed, and a filter cannot judge an action there: call reset() first."
            )
        asked = check_actions(self.action_space, actions, self.num_envs)
        rows = self._rows if self._states is None else self._states()
        assert self.shield.latched is not None  # since the first reset
        self._decision = self.shield.decide(rows, asked, self.shield.latched, self._active)
        return self._decision.actions

    def after_step(self, result: VecStepResult) -> VecStepResult:
        """Say what was executed, and see what the next actions will be judged on."""
        decision = self._decision
        assert decision is not None
        self.shield.latched = decision.latched
        self._see(result.observations, acted_on(result), result.begun | (result.kind == RowKind.RESET))
        return result.replace(infos=_told(result.infos, decision, result.valid))

    def after_reset(self, result: VecResetResult, mask: Flags) -> VecResetResult:
        """Begin unlatched in these slots."""
        self._see(result.observations, ~result.dones, mask)
        return result

    def _see(self, observations: Any, active: Flags | None, begun: Flags) -> None:
        self._rows = copy_batch(self.observation_space, observations)  # the caller may write to what it is given
        self._active = np.ones(self.num_envs, bool) if active is None else active
        if begun.any() or self.shield.latched is None:
            self.shield.begin(begun)


def _told(infos: Infos, decision: Decision, valid: Flags) -> Infos:
    """The infos, which also say of the transitions what was executed, where the environment has not."""
    executed, stacked = decision.actions.astype(np.float64), infos.stacked
    if stacked is not None and valid.all():
        return Infos(len(infos), columns={EXECUTED: executed, **stacked, INTERVENED: decision.intervened})
    slots = np.flatnonzero(valid)
    unsaid = slots[~np.isin(slots, infos.part(EXECUTED, slots).slots)]
    if len(unsaid):
        infos.put(Part(EXECUTED, executed[unsaid], unsaid))
    infos.put(Part(INTERVENED, decision.intervened[slots], slots))
    return infos
