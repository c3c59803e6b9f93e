"""What the native finance environments share: a template that holds the parameters, one sampler per slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import find_in
from sekai.core.slots import Phase
from sekai.core.states import Arrays
from sekai.envs.finance.parameters import ParameterEnv
from sekai.envs.finance.rendering import Recorder
from sekai.envs.finance.states import Slots, get_arrays, set_arrays
from sekai.envs.finance.threads import check_num_threads
from sekai.envs.finance.windows import sampled_rows, start_row
from sekai.finance.data import MarketData
from sekai.finance.samplers import EpisodeSampler
from sekai.seeding import VecSeed
from sekai.vector import NativeVecEnv
from sekai.vector.base import AutoresetOptions
from sekai.vector.exclusive import exclusive


class FinanceVecEnv(NativeVecEnv):
    """Base class of native finance environments.

    Args:
        num_envs: number of slots.
        template: a single environment made of the same arguments. It is never stepped: its parameters are read from
            it at every step, its spaces and its checks are those of every slot.
        autoreset, max_episode_steps, autoreset_options: as for `NativeVecEnv`.

    Attributes:
        num_threads: threads that a call may use, the caller's own included. Draws come first, in slot order, and then
            ranges of slots are stepped side by side: results do not depend on the number. Where a thread would get
            only a few slots, fewer are used. It may be set.
    """

    _template: Any
    _slots: Slots
    _ready: Any = None  # the observations of the current state, until they are taken

    def __init__(
        self,
        num_envs: int,
        template: ParameterEnv,
        *,
        autoreset: Any = True,
        max_episode_steps: int | None = None,
        autoreset_options: AutoresetOptions | None = None,
    ) -> None:
        super().__init__(
            num_envs,
            template.observation_space,
            template.action_space,
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._template = template
        self._argument_names = template.argument_names()
        self.render_mode = template.render_mode
        self._recorder = None if self.render_mode is None else Recorder(template._picture, self.num_envs)
        self._samplers: list[EpisodeSampler] = []
        self._spawned_from: EpisodeSampler | None = None

    @property
    def template(self) -> ParameterEnv:
        """The single environment that holds the parameters of all slots."""
        template: ParameterEnv = self._template
        return template

    @property
    def num_threads(self) -> int:
        """Threads that a call may use; set it to an int of at least 1, or to `"auto"` for the usable cores."""
        return self._slots.threads.count

    @num_threads.setter
    def num_threads(self, value: int | str) -> None:
        self._slots.threads.count = check_num_threads(value)

    def close(self) -> None:
        """End the threads, and mark as closed."""
        self._slots.threads.close()
        super().close()

    def _seed(self, seed: VecSeed) -> None:
        """Seed the generator, and restart the samplers of the slots that were given a seed."""
        super()._seed(seed)
        if seed is None:
            return
        entries = [seed] * self.num_envs if isinstance(seed, (int, np.integer)) else seed
        for sampler, entry in zip(self._samplers, entries, strict=False):  # no samplers before the first episode
            if entry is not None:
                sampler.restart()

    def _check_options(self, indices: NDArray[np.intp], options: list[dict[str, Any] | None]) -> None:
        """Refuse what the single environment refuses, before anything moves."""
        for slot, given in zip(indices.tolist(), options, strict=True):
            if given is not None:
                try:
                    self._template.check_options(given)
                except (TypeError, ValueError) as error:
                    error.add_note(f"These are the options of sub-env {slot}.")
                    raise

    def _start_rows(
        self, indices: NDArray[np.intp], options: list[dict[str, Any] | None], data: MarketData, num_windows: int
    ) -> NDArray[np.int64]:
        """Rows of the first decisions of `indices`, int64 `(len(indices),)`: what the options ask for, else sampled.

        Samplers are asked in slot order; every slot has one of its own, spawned from the template's.
        """
        lookback: int = self._template.lookback
        sampler: EpisodeSampler = self._template.sampler
        asked = [start_row(given, data, lookback, num_windows) for given in options]
        rows = np.array([-1 if row is None else row for row in asked])
        free = np.flatnonzero([row is None for row in asked])
        if len(free):
            positions = self._sample_positions(sampler, indices[free], num_windows)
            rows[free] = sampled_rows(positions, data, lookback, num_windows, sampler)
        return rows

    def _sample_positions(
        self, sampler: EpisodeSampler, slots: NDArray[np.intp], num_windows: int
    ) -> NDArray[np.int64]:
        if self._spawned_from is not sampler:
            self._samplers = [sampler.spawn() for _ in range(self.num_envs)]
            self._spawned_from = sampler
        samplers = [self._samplers[slot] for slot in slots.tolist()]
        first, length = samplers[0], self._template.episode_length
        positions: NDArray[np.int64]
        if all(other is first for other in samplers):
            positions = first.sample_many(self.rng, len(samplers), num_windows, length)
        else:
            positions = np.array([s.sample(self.rng, num_windows, length) for s in samplers])
        return positions

    def _forget_observations(self) -> None:
        self._ready = None

    def _checked_step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        outputs = super()._checked_step(actions)
        if self._recorder is not None:
            self._recorder.add(outputs[3], np.flatnonzero(~self.frozen).tolist())
        return outputs

    def _checked_reset_infos(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        infos = super()._checked_reset_infos(indices)
        if self._recorder is not None:
            past = self._template._past_returns(self._slots, indices)
            self._recorder.begin(infos, indices.tolist(), past=past)
        return infos

    @exclusive
    def set_state(self, state: Any) -> None:
        """Take over a state; see `NativeVecEnv.set_state`. Pictures begin anew with it."""
        super().set_state(state)
        if self._recorder is not None:
            started = self.phase != Phase.NEW
            past = self._template._past_returns(self._slots, np.flatnonzero(started))
            self._recorder.restore(self, started, past)

    @exclusive
    def render(self) -> list[NDArray[np.uint8]]:
        """A picture of each slot's episode so far, uint8 `(H, W, 3)`; see `ParameterEnv.render`.

        Raises:
            NotImplementedError: the environment was made without a `render_mode`.
            ResetRequired: a slot has not begun its first episode.
            ImportError: matplotlib is not installed (extra `viz`).
        """
        self._require_open()
        if self._recorder is None:
            raise NotImplementedError(f"{self} was made without a render_mode; make it with render_mode='rgb_array'.")
        return [self._recorder.frame(slot, self._template) for slot in range(self.num_envs)]

    def _get_state(self) -> Arrays:
        current = self._spawned_from is self._template._parameters.get("sampler")
        return get_arrays(self._template, self._slots, self._samplers if current else [])

    def _set_state(self, arrays: Arrays) -> None:
        """Take over parameters, samplers and slots, or leave all of them as they are."""
        self._samplers = set_arrays(self._template, self._slots, arrays, {})
        self._spawned_from = self._template.sampler if self._samplers else None
        self._ready = None

    def _check_state(self, arrays: Arrays) -> None:
        """Nothing: `_set_state` checks everything before it changes anything."""

    def _find(self, name: str) -> tuple[Any, Any]:
        """The template and its value for its arguments, this object and its value for everything else."""
        where = self._template if name in self._argument_names else self
        return find_in([where], name, self, known=(self, self._template))

    @staticmethod
    def _is_shared(owner: Any, name: str) -> bool:
        # an argument is one value for all slots, also where its length happens to be their number
        return isinstance(owner, ParameterEnv) or NativeVecEnv._is_shared(owner, name)

    def set_attr(self, name: str, value: Any) -> None:
        """Set a parameter of all slots, or an attribute of this object; see `NativeVecEnv.set_attr`.

        Raises:
            ValueError: a list of different values; the slots share their parameters.
        """
        self._require_open()
        if name not in self._argument_names:
            super().set_attr(name, value)
            return
        values = self._slot_values(value)
        if any(not _same(other, values[0]) for other in values[1:]):
            raise ValueError(
                f"set_attr({name!r}, ...) was given different values for the sub-envs, and those of {self} share "
                "their parameters: give one value, or make it with vectorization_mode='sync'."
            )
        setattr(self._template, name, values[0])


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(np.array_equal(a, b))
