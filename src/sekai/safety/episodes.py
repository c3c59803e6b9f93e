"""`EpisodeTrials`: what a certificate of any environment is tried on, whole episodes from its own resets.

An environment cannot be put into a state, so it is reset until the value of the first observation lies in the range
that is wanted, and the episode is played from there. It counts whatever becomes of it: slots play on until every
episode that was begun is over. Who takes the first episodes that end takes the short ones, which have failed.

    failed    a margin g < 0, or one that is no number, before the target was reached
    reached   l >= 0, in reach-avoid
    over      failed or reached, or the episode ended, or so many steps were taken
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import RowKind
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.chain import declared, normalizing_layer
from sekai.safety.margins import TARGET_KEY
from sekai.safety.promises import NOBODY, Certified
from sekai.safety.refusals import require_margins
from sekai.safety.starts import PATIENCE, finite_values
from sekai.safety.trials import Advance, Floats, Played
from sekai.vector import SyncVecEnv, VecEnv, VecStepResult

#: makes of the seed another one than a learner makes of it: its episodes are not those that were learned from
HELD_OUT = 0x5EED
#: first values that say how large a set is
POOL = 2000
NONE = -1


class EpisodeTrials:
    """Episodes of an environment with margins, see the module.

    Args:
        learner: whose deterministic policy acts, and whose values are asked.
        env: a vector environment of sekai, or one environment; it is reset, and not closed.
        steps: of an episode at most.
        seed: of the resets.
        advance: told how many episodes are over, as they are.

    Attributes:
        mode: `"avoid"` or `"reach-avoid"`, that of the learner, else of the environment.
        opponents: none; the environment has its own randomness.

    Raises:
        TypeError: `env` is neither.
        ValueError: its reward is no margin as far as it says, or is changed on its way; an action holds a disturbance
            as well; statistics that normalise its observations are moving.
    """

    opponents: tuple[str, ...] = ()

    def __init__(self, learner: Certified, env: Any, *, steps: int, seed: int, advance: Advance | None = None) -> None:
        self.mode = require_episodes(learner, env)
        self._learner, self._steps, self._advance = learner, steps, advance
        self._env: VecEnv = env if isinstance(env, VecEnv) else SyncVecEnv([lambda: env])
        self._drawn = 0
        seeds = np.random.SeedSequence([seed, HELD_OUT]).generate_state(self._env.num_envs, np.uint64) >> np.uint64(1)
        self._env.reset(seed=[int(one) for one in seeds])  # the draws come after it, so that all are made alike

    @property
    def drawn(self) -> int:
        """See `Trials`."""
        return self._drawn

    def values(self, low: float, high: float, count: int) -> Floats:
        """See `Trials`."""
        found: list[Floats] = [np.empty(0)]
        left, patience = count, PATIENCE * count
        while left > 0 and patience > 0:
            drawn = self._first_values(np.ones(self._env.num_envs, bool))[1]
            patience -= len(drawn)
            found.append(drawn[(drawn >= low) & (drawn < high)][:left])
            left -= len(found[-1])
        return np.concatenate(found)

    def pool(self, count: int) -> Floats:
        """See `Trials`; fewer, since a reset may take long."""
        return self.values(-np.inf, np.inf, min(count, POOL))

    def play(self, low: float, high: float, count: int) -> Played:
        """See `Trials`."""
        tally = _Tally(count, self._env.num_envs)
        free, observations = np.ones(self._env.num_envs, bool), None
        while True:
            if free.any():
                observations = self._begin(tally, free, low, high)
            if not tally.playing.any():
                return tally.played()
            actions, _ = self._learner.predict(observations, deterministic=True)
            result = self._env.step(actions)
            observations = result.observations
            failed, reached = self._looked_at(result, tally.playing)
            over = failed | reached | result.ended | (tally.aged() >= self._steps)
            count = tally.end(over, failed if self.mode == AVOID else ~reached)
            free = over
            if self._advance is not None and count:
                self._advance(count)

    def _begin(self, tally: _Tally, free: NDArray[np.bool_], low: float, high: float) -> Any:
        """Begin an episode in each of these slots, or in as many as are left; returns all observations."""
        while True:
            observations, values = self._first_values(free)
            begun = tally.begin(np.flatnonzero(free), values, (values >= low) & (values < high))
            free = free & ~begun
            if tally.all_begun or not free.any():
                return observations  # slots that are left over run along, and nobody looks

    def _first_values(self, slots: NDArray[np.bool_]) -> tuple[Any, Floats]:
        """Reset these slots: all observations, and the values of theirs."""
        observations = self._env.reset(mask=slots).observations
        found = np.asarray(self._learner.predict_value(observations))
        which = np.flatnonzero(slots)
        self._drawn += len(which)
        return observations, finite_values(
            found[which], lambda place: f"the first observation of sub-env {which[place]}"
        )

    def _looked_at(
        self, result: VecStepResult, playing: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each slot has failed, and whether it has reached the target."""
        lost = np.flatnonzero(playing & (result.kind == RowKind.LOST))
        if len(lost):
            raise RuntimeError(
                f"The episode of sub-env {lost[0]} was cut by a fault, and what would have become of it cannot be "
                "counted: certify anew, in an environment that does not lose rows."
            )
        failed = ~(result.rewards >= 0)
        reached = np.zeros(len(failed), bool)
        if self.mode == REACH_AVOID:
            for slot in np.flatnonzero(playing).tolist():
                info = result.final_info(slot) if result.ended[slot] else result.infos[slot]
                if TARGET_KEY not in info:
                    raise LookupError(
                        f"The info of sub-env {slot} has no {TARGET_KEY!r}, the target margin of its step."
                    )
                reached[slot] = info[TARGET_KEY] >= 0
        return failed, reached & ~failed


class _Tally:
    """Which episode each slot plays, and what became of them.

    Args:
        count: episodes that are wanted.
        num_envs: slots.
    """

    def __init__(self, count: int, num_envs: int) -> None:
        self._values, self._broken = np.empty(count), np.empty(count, bool)
        self._episode, self._age = np.full(num_envs, NONE), np.zeros(num_envs, int)
        self._begun, self._patience = 0, PATIENCE * count

    @property
    def playing(self) -> NDArray[np.bool_]:
        """Slots whose episode counts, bool `(num_envs,)`."""
        playing: NDArray[np.bool_] = self._episode != NONE
        return playing

    @property
    def all_begun(self) -> bool:
        """Whether no more will be begun: there are enough, or those that are wanted are too rare."""
        return self._begun == len(self._values) or self._patience <= 0

    def begin(self, slots: Any, values: Floats, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Begin where it is wanted, slots `(k,)` with values `(k,)`; returns where it was, bool `(num_envs,)`."""
        self._patience -= len(slots)
        taken = np.flatnonzero(wanted)[: len(self._values) - self._begun]
        episodes = np.arange(self._begun, self._begun + len(taken))
        self._values[episodes] = values[taken]
        self._episode[slots[taken]], self._age[slots[taken]] = episodes, 0
        self._begun += len(taken)
        begun = np.zeros(len(self._episode), bool)
        begun[slots[taken]] = True
        return begun

    def aged(self) -> NDArray[np.int_]:
        """Steps of each slot, one more than before."""
        self._age += 1
        return self._age

    def end(self, over: NDArray[np.bool_], broken: NDArray[np.bool_]) -> int:
        """Note what became of those that are over; returns how many counted."""
        ends = over & self.playing
        self._broken[self._episode[ends]] = broken[ends]
        self._episode[ends] = NONE
        return int(ends.sum())

    def played(self) -> Played:
        """All that were begun."""
        return Played(self._values[: self._begun], {NOBODY: self._broken[: self._begun]})


def require_episodes(learner: Any, env: Any) -> Mode:
    """The mode in which episodes of an environment can be counted; errors as for `EpisodeTrials`."""
    if not isinstance(env, (VecEnv, gymnasium.Env)):
        raise TypeError(
            f"Given {env!r}; expected a System, a vector environment of sekai, or one environment. Around others: "
            "sekai.compat.from_gymnasium_vector."
        )
    targets = [bool(provides_l) for _, provides_l in declared(env, "provides_l")]
    if not targets:
        raise ValueError(
            f"{env} does not say that its reward is a margin: put MarginWrapper around it, or, where its reward is g "
            "already, declare provides_l = False (or True, with info['l_x']) as an attribute."
        )
    mode: Mode = getattr(learner, "mode", REACH_AVOID if all(targets) else AVOID)
    require_margins(env, mode, learner="A certificate")
    for _, dim in declared(env, "ctrl_action_dim"):
        if dim is not None:
            raise ValueError(
                f"{env} declares ctrl_action_dim = {dim}: the rest of an action is the disturbance's, which nobody "
                "chooses here. Give the System, or an environment whose disturbance is not 'player'."
            )
    layer = normalizing_layer(env)
    if layer is not None and layer.moves:
        raise ValueError(
            f"The statistics of {layer.name} may be moving, and so would the policy: set its update_running_mean to "
            "False, or train with normalize_observations=True, which keeps them in the policy."
        )
    return mode
