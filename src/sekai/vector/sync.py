"""`SyncVecEnv`: sub-environments stepped one after another, in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sekai.core.env import as_step_result, call_reset
from sekai.core.results import StepResult
from sekai.seeding import VecSeed
from sekai.vector.base import AutoresetOptions
from sekai.vector.building import EnvFactory, building
from sekai.vector.exclusive import exclusive, exclusive_step
from sekai.vector.local import NEW, RESET, STEP, LocalVecEnv
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
        envs, stepped, slot = self.envs, self._stepped, 0
        try:
            for slot, action in enumerate(batch):
                try:
                    if calls[slot] == STEP:
                        result = envs[slot].step(action)
                        if type(result) is not StepResult:
                            result = as_step_result(result, envs[slot])
                        if stepped(slot, result):
                            self._restarted(slot, call_reset(envs[slot], None, self._next_options[slot]))
                    elif calls[slot] == RESET:
                        self.phase[slot] = NEW  # until the reset has succeeded
                        self._was_reset(slot, call_reset(envs[slot], None, self._next_options[slot]))
                    else:
                        self._held(slot)
                except Exception as error:
                    self._failed(slot, error)
        except BaseException:
            self._unfinished = calls[: slot + 1]
            raise
        return self._finish_step(calls)

    @exclusive
    def reset(self, *, seed: VecSeed = None, options: Any = None, mask: Any = None) -> VecResetResult:
        """Reset the slots in order. An exception of one lets the others finish and is raised at the end."""
        request = self._begin_reset(seed, options, mask)
        for slot in request.slots:
            self.phase[slot] = NEW  # until the reset has succeeded
            try:
                self._was_reset(slot, call_reset(self.envs[slot], request.seeds[slot], request.options[slot]))
            except Exception as error:
                self._failed(slot, error)
        return self._finish_reset(request)
