"""`SyncVecEnv`: sub-environments stepped one after another, in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sekai.core.env import as_step_result
from sekai.core.results import StepResult
from sekai.core.snapshot import snapshot
from sekai.seeding import VecSeed
from sekai.vector.base import AutoresetOptions
from sekai.vector.blame import blame
from sekai.vector.building import EnvFactory, building
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.local import STEP, LocalVecEnv
from sekai.vector.outstanding import Request, Row
from sekai.vector.results import VecResetResult, VecStepResult


class SyncVecEnv(LocalVecEnv):
    """Sub-environments stepped one after another, in this process.

    Args:
        env_fns: one zero-argument callable per sub-environment.
        autoreset: True or `"same_step"`, `"next_step"`, False or `"disabled"`, see `AutoresetMode`.
        autoreset_options: called as `(slot, episode)` when an episode starts; returns the options of the next one.

    Raises:
        SpaceMismatch: the sub-environments' spaces differ.
        ValueError: no factory, or two that return the same object.
    """

    def __init__(
        self,
        env_fns: Iterable[EnvFactory],
        *,
        autoreset: Any = True,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        with building(env_fns, self.first_slot) as envs:
            super().__init__(envs, autoreset=autoreset, autoreset_options=autoreset_options)

    @exclusive_step
    def step(self, actions: Any) -> VecStepResult:
        """Step the slots in order. An exception of one lets the others finish and is raised at the end."""
        calls, batch = self._begin_step(actions)
        envs, rows, rewards, infos, slot = self.envs, self._batch, self._rewards, self._infos, 0
        write, fresh = self._write, self._fresh_infos
        try:
            for slot, action in enumerate(batch):
                try:
                    if calls[slot] != STEP:
                        self._advance(slot, calls[slot], action)
                        continue
                    env = envs[slot]
                    result = env.step(action)
                    if type(result) is not StepResult:
                        result = as_step_result(result, env)
                    observation, reward, terminated, truncated, info = result
                    if terminated or truncated or type(reward) is not float or type(info) is not dict:
                        self._arrived(slot, result)
                        continue
                    # what `_stepped` does, written out for the row that nearly all are
                    write(rows, slot, observation)
                    rewards[slot] = reward
                    infos[slot] = info if fresh[slot] else snapshot(info)
                except Exception as error:
                    self._failed(slot, error)
        except BaseException:
            self._unfinished = calls[: slot + 1]
            raise
        return self._finish_step(calls)

    def _launch(self, requests: dict[int, Request]) -> None:
        """Step the slots in order."""
        outstanding = self._outstanding
        for slot, request in requests.items():
            outcome: Row | BaseException
            self._unfinished = slot
            try:
                call = self._begin_slot(slot)
                self._advance(slot, call, request.action)
                outcome = self._row(slot, call)
            except Exception as error:
                blame(error, self.first_slot + slot)
                outcome = error
            outstanding.finished.pop(slot, None)  # of an earlier request: the new one is the last in order
            outstanding.finished[slot] = outcome
            outstanding.asked[slot] = request
            self._unfinished = None

    def _progress(self, deadline: float | None) -> bool:
        """Nothing is ever under way."""
        return False

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset the slots in order. An exception of one lets the others finish and is raised at the end."""
        request = self._begin_reset(seed, options, mask)
        for slot in request.slots:
            self._reset_slot(slot, request)
        return self._finish_reset(request)
