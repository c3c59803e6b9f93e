"""`LocalVecEnv`: what the backends share that hold their sub-environments in this process.

It knows what the outcome of a call means for a slot; `SyncVecEnv` (one slot after another) and `AsyncVecEnv` (all at
once) are thin drivers over it.

Observations live in one private batch, whose rows the slots overwrite; every result gets a copy of it. So a row
survives a call that does not touch its slot, and no environment can change a result by reusing its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, as_step_result, call_reset, class_names, find_attr, walk
from sekai.core.results import ResetResult, StepResult
from sekai.core.slots import CALL_OF_PHASE, KIND, AutoresetMode, Call, Phase, phase_after
from sekai.core.snapshot import snapshot
from sekai.core.wrapper import resets_itself
from sekai.errors import InvalidObservation, ResetRequired
from sekai.seeding import VecSeed
from sekai.spaces import (
    copy_batch,
    empty_batch,
    finish_batch,
    iterate,
    read_row,
    row_writer,
)
from sekai.vector.actions import check_actions
from sekai.vector.base import AutoresetOptions
from sekai.vector.blame import blaming, raise_first
from sekai.vector.building import check_equal_spaces, close_all
from sekai.vector.infos import Infos
from sekai.vector.outstanding import Row
from sekai.vector.overlapping import OverlappingVecEnv
from sekai.vector.requests import ResetRequest, reset_request
from sekai.vector.results import VecResetResult, VecStepResult

# plain ints: members of an enum class are several times slower to compare and to store
NEW, LIVE, STEP, RESET, HOLD = (
    int(Phase.NEW),
    int(Phase.LIVE),
    int(Call.STEP),
    int(Call.RESET),
    int(Call.HOLD),
)


class LocalVecEnv(OverlappingVecEnv):
    """Sub-environments in this process; the part that does no calls.

    Attributes:
        envs: the sub-environments, in slot order.
        first_slot: index of the first one in a larger vector environment; messages count from it.
    """

    first_slot: int = 0

    def __init__(
        self, envs: list[Any], *, autoreset: Any = True, autoreset_options: AutoresetOptions | None = None
    ) -> None:
        check_equal_spaces([(env.observation_space, env.action_space) for env in envs], self.first_slot)
        super().__init__(
            len(envs),
            envs[0].observation_space,
            envs[0].action_space,
            autoreset=autoreset,
            autoreset_options=autoreset_options,
        )
        self.envs = envs
        self.metadata = {**envs[0].metadata, "autoreset_mode": self.autoreset}
        self.render_mode = envs[0].render_mode
        n = self.num_envs
        self._resets_itself = [resets_itself(env) for env in envs]
        self._fresh_infos = [vars(type(env)).get("fresh_infos", False) for env in envs]
        self._batch = empty_batch(self.observation_space, n)
        self._write = row_writer(self.observation_space, first=self.first_slot)
        # columns of the call in progress; flags also of the latest row of each slot
        self._terminated, self._truncated = [False] * n, [False] * n
        self._rewards: list[float] = [0.0] * n
        self._infos: list[dict[str, Any]] = [{}] * n
        self._ended: list[int] = []
        self._failures: dict[int, Exception] = {}
        self._all_live = [LIVE] * n
        self._all_step = [STEP] * n
        self._after_reset = phase_after(RESET, False, self.autoreset)

    def _moved(self, unfinished: list[int] | int) -> NDArray[np.bool_]:
        if isinstance(unfinished, int):  # the slot that `send` was stepping
            return self._marked([unfinished])
        return self._marked(slot for slot, call in enumerate(unfinished) if call != HOLD)

    def _begin(self) -> None:
        self._ended = []
        self._failures = {}

    def _stepped(self, slot: int, result: StepResult) -> bool:
        """Take the result of a step; True when the slot has to be reset in the same call."""
        observation, reward, terminated, truncated, info = result
        try:
            self._write(self._batch, slot, observation)
            self._rewards[slot] = reward if type(reward) is float else as_reward(reward, self.first_slot + slot)
            if not self._fresh_infos[slot]:
                info = snapshot(info if type(info) is dict else as_info(info, self.first_slot + slot))
            self._infos[slot] = info
        except Exception:
            if terminated or truncated:  # the episode is over, whatever its last row was meant to be
                self.phase[slot] = NEW
            raise
        if not (terminated or truncated):
            return False
        return self._finished(slot, bool(terminated), bool(truncated))

    def _finished(self, slot: int, terminated: bool, truncated: bool) -> bool:
        """Note the end of an episode; True when the slot has to be reset in the same call."""
        self._terminated[slot], self._truncated[slot] = terminated, truncated
        self._ended.append(slot)
        if self._resets_itself[slot]:
            return False
        if self.autoreset is not AutoresetMode.SAME_STEP:
            self.phase[slot] = phase_after(STEP, True, self.autoreset)
            return False
        info = self._infos[slot]
        final_info = dict(info)
        info["final_observation"] = self._latest(slot)
        info["final_info"] = final_info
        self.phase[slot] = NEW  # until the reset has succeeded
        return True

    def _restarted(self, slot: int, first: ResetResult) -> None:
        """Take the reset that followed the end of an episode within the same call."""
        self._write(self._batch, slot, first.observation)
        info = first.info
        self._infos[slot]["reset_info"] = {} if info == {} else snapshot(as_info(info, self.first_slot + slot))
        self.phase[slot] = self._after_reset
        self._episodes_began((slot,))

    def _advance(self, slot: int, call: int, action: Any) -> None:
        """Do to a slot what the call is, by blocking calls."""
        env = self.envs[slot]
        if call == STEP:
            result = env.step(action)
            if type(result) is not StepResult:
                result = as_step_result(result, env)
            self._arrived(slot, result)
        elif call == RESET:
            self.phase[slot] = NEW  # until the reset has succeeded
            self._was_reset(slot, call_reset(env, None, self._next_options[slot]))
        else:
            self._held(slot)

    def _arrived(self, slot: int, result: StepResult) -> None:
        """Take the result of a step, and reset the slot where that belongs to the same call."""
        if self._stepped(slot, result):
            self._restarted(slot, call_reset(self.envs[slot], None, self._next_options[slot]))

    def _reset_slot(self, slot: int, request: ResetRequest) -> None:
        """Reset a slot, by a blocking call. An exception is kept for the end of the call."""
        self.phase[slot] = NEW  # until the reset has succeeded
        try:
            self._was_reset(slot, call_reset(self.envs[slot], request.seeds[slot], request.options[slot]))
        except Exception as error:
            self._failed(slot, error)

    def _begin_slot(self, slot: int) -> int:
        """What a step does to a slot that is stepped by itself."""
        call: int = CALL_OF_PHASE[self.phase[slot]]
        if call == Call.REFUSE:
            raise ResetRequired("a reset is needed first")
        self._ended = []  # it is of calls that step all slots
        if call != HOLD:  # frozen slots keep their flags
            self._terminated[slot] = self._truncated[slot] = False
        return call

    def _row(self, slot: int, call: int) -> Row:
        """The row that a step has just made of a slot."""
        terminated, truncated = self._terminated[slot], self._truncated[slot]
        kind, ended = KIND[call][terminated][truncated][False], call == STEP and (terminated or truncated)
        return Row(self._latest(slot), self._rewards[slot], terminated, truncated, self._infos[slot], kind, ended)

    def _held(self, slot: int) -> None:
        """Repeat the last row of a slot that is frozen, or outside the mask of a reset."""
        self._rewards[slot] = 0.0
        self._infos[slot] = {}

    def _was_reset(self, slot: int, first: ResetResult) -> None:
        """Take a reset that is a row of its own."""
        self._rewards[slot] = 0.0
        self._write(self._batch, slot, first.observation)
        self._terminated[slot] = self._truncated[slot] = False
        self._infos[slot] = snapshot(as_info(first.info, self.first_slot + slot))
        self.phase[slot] = self._after_reset
        self._episodes_began((slot,))

    def _named(self, errors: dict[int, Exception]) -> dict[int, Exception]:
        """Errors by the index that messages use."""
        return {self.first_slot + slot: error for slot, error in errors.items()}

    def _failed(self, slot: int, error: Exception) -> None:
        self._failures[slot] = error

    def _finish_step(self, calls: list[int]) -> VecStepResult:
        """The result of a call, or the first failure in it."""
        n = self.num_envs
        if self._failures:
            raise_first(self._named(self._failures))
        if self._unasked:
            self._ask_options()
        terminated, truncated, ended = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        kind = np.zeros(n, np.int8)  # RowKind.STEP
        for slot in self._ended:
            terminated[slot], truncated[slot], ended[slot] = (
                self._terminated[slot],
                self._truncated[slot],
                True,
            )
            kind[slot] = KIND[STEP][self._terminated[slot]][self._truncated[slot]][False]
        if calls is not self._all_step or self._lost is not self._none_lost:
            terminated, truncated = np.array(self._terminated, bool), np.array(self._truncated, bool)
            rows = zip(calls, self._terminated, self._truncated, self._lost.tolist(), strict=True)
            kind = np.array([KIND[call][te][tr][lost] for call, te, tr, lost in rows], np.int8)
        result = VecStepResult(
            self._observations(),
            np.array(self._rewards, np.float64),
            terminated,
            truncated,
            Infos(n, rows=list(self._infos)),
            kind=kind,
            ended=ended,
            space=self.observation_space,
        )
        self._lost = self._none_lost
        return result

    def _begin_reset(self, seed: VecSeed, options: Any, mask: Any) -> ResetRequest:
        self._require_open()
        request = reset_request(seed, options, mask, self.num_envs)
        self._require_received(request.slots)
        self._finish_all()
        self._require_rest_started(request.mask)
        self._check_options(request)
        self._begin()
        self.lose_rows(request.mask)  # until the caller has the first rows
        for slot in np.flatnonzero(~request.mask).tolist():
            self._held(slot)
        return request

    def _check_options(self, request: ResetRequest) -> None:
        """Let environments that can refuse options do so before anything moves."""
        refused: dict[int, Exception] = {}
        for slot in request.slots:
            env = self.envs[slot]
            if isinstance(env, Env):
                try:
                    env.check_options(request.options[slot])
                except Exception as error:
                    refused[slot] = error
        if refused:
            raise_first(self._named(refused))

    def _finish_reset(self, request: ResetRequest) -> VecResetResult:
        if self._failures:
            raise_first(self._named(self._failures), "needs a reset")
        self._ask_options()
        result = VecResetResult(self._observations(), Infos.of(self._infos), self.phase >= Phase.WAITING)
        left = self._lost & ~request.mask
        self._lost = left if left.any() else self._none_lost
        return result

    def _latest(self, slot: int) -> Any:
        """A copy of the latest row of one slot."""
        batch = self._batch
        if type(batch) is np.ndarray and batch.ndim > 1:
            return batch[slot].copy()
        return read_row(self.observation_space, batch, slot)

    def _observations(self) -> Any:
        """The latest row of every slot, in a batch of its own."""
        batch = self._batch
        if type(batch) is np.ndarray:
            return batch.copy()
        return finish_batch(self.observation_space, copy_batch(self.observation_space, batch))

    def _begin_step(self, actions: Any) -> tuple[list[int], Iterable[Any]]:
        """What the call does to each slot, and the action of each."""
        self._require_open()
        self._require_received()
        phases = self.phase.tolist()
        if phases == self._all_live:
            calls = self._all_step
        else:
            self._require_started()
            calls = [CALL_OF_PHASE[phase] for phase in phases]
        if self._unasked:
            self._ask_options()
        batch = self._checked(actions)
        self._note_unfinished()
        if calls is self._all_step:
            self._terminated, self._truncated = [False] * self.num_envs, [False] * self.num_envs
        else:  # frozen slots keep their flags
            held = [call == HOLD for call in calls]
            self._terminated = [flag and hold for flag, hold in zip(self._terminated, held, strict=True)]
            self._truncated = [flag and hold for flag, hold in zip(self._truncated, held, strict=True)]
        self._begin()
        self._unfinished = calls
        return calls, iterate(self.action_space, batch)

    def _checked(self, actions: Any) -> Any:
        """The actions as a batch of their own, or an error."""
        return check_actions(self.action_space, actions, self.num_envs)

    def get_attr(self, name: str) -> list[Any]:
        """`name` of every sub-environment, looked for through its layers."""
        self._require_open()
        self._require_received()
        return self._each(lambda slot: find_attr(self.envs[slot], name)[1])

    def set_attr(self, name: str, value: Any) -> None:
        """Set `name` on the layer of each sub-environment that has it."""
        self._require_open()
        self._require_received()
        values = self._slot_values(value)
        layers = self._each(lambda slot: find_attr(self.envs[slot], name)[0])
        self._each(lambda slot: setattr(layers[slot], name, values[slot]))

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call `name` on every sub-environment, or read it where it is not callable."""
        return self.call_slots(range(self.num_envs), name, *args, **kwargs)

    def call_slots(self, slots: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """`call`, of some sub-environments only; one result for each, in the order of `slots`."""
        self._require_open()
        self._require_received()

        def one(slot: int) -> Any:
            attribute = find_attr(self.envs[slot], name)[1]
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return self._each(one, slots)

    def _each(self, function: Callable[[int], Any], slots: Iterable[int] | None = None) -> list[Any]:
        results = []
        for slot in range(self.num_envs) if slots is None else slots:
            with blaming(self.first_slot + slot):
                results.append(function(slot))
        return results

    def layers(self) -> list[str]:
        """This class, then the layers of the first sub-environment."""
        return [type(self).__name__, *(type(layer).__name__ for layer in walk(self.envs[0]))]

    def layer_bases(self) -> list[list[str]]:
        """Those of this class, then of the layers of the first sub-environment."""
        return [class_names(self), *map(class_names, walk(self.envs[0]))]

    def close(self) -> None:
        """Close every sub-environment; the first error is raised when all are closed."""
        if self.closed:
            return
        self.closed = True
        close_all(self.envs)


def as_info(info: Any, slot: int) -> dict[str, Any]:
    """`info` as a dict.

    Raises:
        InvalidObservation: it is no mapping; the message names the sub-environment.
    """
    if not isinstance(info, Mapping):
        raise InvalidObservation(f"sub-env {slot} returned the info {info!r} ({type(info).__name__}); expected a dict.")
    return dict(info)


def as_reward(reward: Any, slot: int) -> float:
    """A scalar, 0-d or `(1,)` reward as a float.

    Raises:
        InvalidObservation: anything else; the message names the sub-environment.
    """
    if isinstance(reward, (float, int, np.integer, np.floating, np.bool_)):
        return float(reward)
    array = np.asarray(reward)
    if array.shape not in ((), (1,)) or array.dtype.kind not in "biuf":
        raise InvalidObservation(
            f"sub-env {slot} returned the reward {reward!r} (shape {array.shape}); expected one number."
        )
    return float(array.reshape(()))
