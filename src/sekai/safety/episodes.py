"""`EpisodeTrials`: what a certificate of any environment is tried on, whole episodes from its own resets.

An environment cannot be put into a state, so it is reset until the value of the first observation lies in the range
that is wanted, and the episode is played from there. Which episodes count is settled by the resets alone: with the r-th
reset of slot i standing before the next of every slot,

    round 0: slot 0, slot 1, ...    round 1: slot 0, slot 1, ...    ...

they are the first ones in the range, as many as are wanted, however long they take. Who takes the first that end takes
the short ones, which have failed, and those of the fast slots. What is played beyond is not looked at.

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
from sekai.safety.about import about_env
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.chain import chains, declared, normalizing_layer
from sekai.safety.margins import TARGET_KEY
from sekai.safety.promises import NOBODY, Certified
from sekai.safety.refusals import reward_problems
from sekai.safety.starts import PATIENCE, finite_values
from sekai.safety.trials import Advance, Floats, Played
from sekai.spaces import take_rows
from sekai.vector import SyncVecEnv, VecEnv, VecStepResult

Flags = NDArray[np.bool_]
#: mixed into the seed, so that these episodes are not those that a learner with the same seed was trained on
HELD_OUT = 0x5EED
#: first values that say how large a set is
MOST_POOLED = 2000
#: resets in a row that begin alike, after which the next ones are not expected to differ
ALIKE = 20
NO_EPISODE = -1


class EpisodeTrials:
    """Episodes of an environment with margins, see the module.

    Args:
        learner: whose deterministic policy acts, and whose values are asked.
        env: a vector environment of sekai, or one environment, but not that in which the learner trains; it is reset,
            and not closed.
        steps: of an episode at most.
        seed: of the resets.
        advance: told how many episodes are over, as they are.

    Attributes:
        about: what is tried; its mode is that of the learner, else that of the environment.
        opponents: none; the environment has its own randomness.

    Raises:
        TypeError: `env` is neither.
        ValueError: what `require_episodes` refuses; its resets begin the same episodes again and again.
    """

    opponents: tuple[str, ...] = ()

    def __init__(self, learner: Certified, env: Any, *, steps: int, seed: int, advance: Advance | None = None) -> None:
        self._mode = require_episodes(learner, env)
        self.about = about_env(env, self._mode)
        self._learner, self._steps, self._advance = learner, steps, advance
        self._env: VecEnv = env if isinstance(env, VecEnv) else SyncVecEnv([lambda: env])
        self._drawn, self._highest = 0, -np.inf
        self._require_fresh(seed)
        self._reset_with(seed)

    @property
    def drawn(self) -> int:
        """See `Trials`."""
        return self._drawn

    @property
    def highest(self) -> float:
        """See `Trials`."""
        return self._highest

    def values(self, low: float, high: float, count: int) -> Floats:
        """See `Trials`."""
        found: list[Floats] = [np.empty(0)]
        left, patience = count, PATIENCE * count
        while left > 0 and patience > 0:
            drawn = self._first_values(np.arange(self._env.num_envs))[1]
            patience -= len(drawn)
            found.append(drawn[(drawn >= low) & (drawn < high)][:left])
            left -= len(found[-1])
        return np.concatenate(found)

    def pool(self, count: int) -> Floats:
        """See `Trials`; fewer, since a reset may take long."""
        return self.values(-np.inf, np.inf, min(count, MOST_POOLED))

    def play(self, low: float, high: float, count: int) -> Played:
        """See `Trials`."""
        tally = _Tally(count, self._env.num_envs)
        observations = self._begin(tally, low, high)
        while tally.playing.any():
            actions, _ = self._learner.predict(observations, deterministic=True)
            result = self._env.step(actions)
            observations = result.observations
            failed, reached = self._looked_at(result, tally.playing)
            tally.age += 1
            over = tally.playing & (failed | reached | result.ended | (tally.age >= self._steps))
            tally.end(over, failed if self._mode == AVOID else ~reached)
            if over.any():
                if self._advance is not None:
                    self._advance(int(over.sum()))
                observations = self._begin(tally, low, high, observations)
        return tally.played()

    def _begin(self, tally: _Tally, low: float, high: float, observations: Any = None) -> Any:
        """Reset the slots that play nothing until each plays something, or need not; returns all observations."""
        while len(slots := tally.wanted()):
            observations, values = self._first_values(slots)
            tally.begin(slots, values, (values >= low) & (values < high))
        return observations

    def _first_values(self, slots: NDArray[np.intp]) -> tuple[Any, Floats]:
        """Reset these slots: all observations, and the values of theirs."""
        mask = np.zeros(self._env.num_envs, bool)
        mask[slots] = True
        observations = self._env.reset(mask=mask).observations
        self._drawn += len(slots)
        values = self._values_of(observations, slots)
        self._highest = max(self._highest, float(values.max(initial=-np.inf)))
        return observations, values

    def _values_of(self, observations: Any, slots: NDArray[np.intp]) -> Floats:
        found = np.asarray(self._learner.predict_value(take_rows(self._env.observation_space, observations, slots)))
        if found.shape != slots.shape:
            raise ValueError(
                f"predict_value gave values of shape {found.shape} for {len(slots)} observations; expected "
                f"{slots.shape}."
            )
        return finite_values(found, lambda place: f"the first observation of sub-env {slots[place]}")

    def _reset_with(self, seed: int) -> Any:
        """Begin the stream of every slot; what follows is drawn from it."""
        words = np.random.SeedSequence([seed, HELD_OUT]).generate_state(self._env.num_envs, np.uint64)
        return self._env.reset(seed=[int(word >> np.uint64(1)) for word in words]).observations

    def _require_fresh(self, seed: int) -> None:
        """Refuse resets that would begin the same episode again and again, though other seeds begin others."""
        every = np.arange(self._env.num_envs)
        first, alike = self._values_of(self._reset_with(seed), every), np.ones(self._env.num_envs, bool)
        for _ in range(ALIKE):
            alike &= self._values_of(self._env.reset().observations, every) == first
            if not alike.any():
                return
        repeated = np.flatnonzero(alike & (self._values_of(self._reset_with(seed + 1), every) != first))
        if len(repeated):
            raise ValueError(
                f"{ALIKE} resets of sub-env {repeated[0]} without a seed began alike, and one with a seed did not: "
                "reset(seed=None) has to go on with the generator that it has, else the same episode is counted again "
                "and again."
            )

    def _looked_at(self, result: VecStepResult, playing: Flags) -> tuple[Flags, Flags]:
        """Whether each slot has failed, and whether it has reached the target."""
        lost = np.flatnonzero(playing & (result.kind == RowKind.LOST))
        if len(lost):
            raise RuntimeError(
                f"The episode of sub-env {lost[0]} was cut by a fault, and what would have become of it cannot be "
                "counted: certify anew, in an environment that does not lose rows."
            )
        failed = ~(result.rewards >= 0)
        reached = np.zeros(len(failed), bool)
        if self._mode == REACH_AVOID:
            for slot in np.flatnonzero(playing).tolist():
                reached[slot] = _target_margin(result.step_info(slot), slot) >= 0
        return failed, reached & ~failed


class _Tally:
    """Which episode each slot plays, and what became of them. Slots that play none run along, and nobody looks.

    Args:
        count: episodes that are wanted.
        num_envs: slots.

    Attributes:
        age: steps of each slot since its episode began, `(num_envs,)`.
    """

    def __init__(self, count: int, num_envs: int) -> None:
        self.age = np.zeros(num_envs, int)
        self._count, self._rounds = count, -(-PATIENCE * count // num_envs)
        self._resets = np.zeros(num_envs, int)
        self._episode = np.full(num_envs, NO_EPISODE)
        # of each episode in the range: where its reset stands in the order, its value, and whether it broke the promise
        self._places, self._values, self._broken = np.empty(0, int), np.empty(0), np.empty(0, bool)

    @property
    def playing(self) -> Flags:
        """Slots whose episode counts, bool `(num_envs,)`."""
        playing: Flags = self._episode != NO_EPISODE
        return playing

    def wanted(self) -> NDArray[np.intp]:
        """Slots that play nothing and whose next reset may be among those that count."""
        free = np.flatnonzero(~self.playing & (self._resets < self._rounds))
        return free[self._may_count(self._resets[free] * len(self._resets) + free)]

    def begin(self, slots: NDArray[np.intp], values: Floats, in_range: Flags) -> None:
        """These slots `(k,)` were reset, to values `(k,)`; those in the range begin an episode."""
        places = self._resets[slots] * len(self._resets) + slots
        self._resets[slots] += 1
        first = len(self._places)
        self._places = np.append(self._places, places[in_range])
        self._values = np.append(self._values, values[in_range])
        self._broken = np.append(self._broken, np.zeros(int(in_range.sum()), bool))
        began = slots[in_range]
        self._episode[began], self.age[began] = np.arange(first, len(self._places)), 0
        self._episode[began[~self._may_count(places[in_range])]] = NO_EPISODE

    def end(self, over: Flags, broken: Flags) -> None:
        """Note what became of those that are over."""
        self._broken[self._episode[over]] = broken[over]
        self._episode[over] = NO_EPISODE

    def played(self) -> Played:
        """Those that count."""
        first = np.argsort(self._places)[: self._count]
        return Played(self._values[first], {NOBODY: self._broken[first]})

    def _may_count(self, places: NDArray[np.intp]) -> Flags:
        """Whether fewer than are wanted are known to stand before these places."""
        before: Flags = np.searchsorted(np.sort(self._places), places) < self._count
        return before


def require_episodes(learner: Any, env: Any) -> Mode:
    """The mode in which episodes of an environment can be counted.

    Raises:
        TypeError: it is no environment of the kinds that can be.
        ValueError: the learner trains in it, or was trained behind a normalising layer that it does not have; it does
            not say that its rewards are margins, or they are changed on their way; an action holds a disturbance as
            well; it has options for the episodes that it begins by itself; statistics that normalise its observations
            are moving.
    """
    if not isinstance(env, (VecEnv, gymnasium.Env)):
        instead = "sekai.SyncVecEnv([make] * 16), of a function that makes one"
        if isinstance(env, gymnasium.vector.VectorEnv):
            instead = "sekai.compat.from_gymnasium_vector(env)"
        raise TypeError(
            f"Given {env!r}; expected a System, a vector environment of sekai, or one environment: give {instead}."
        )
    if not hasattr(learner, "predict_value"):
        raise TypeError(
            f"The learner is {learner!r}; expected one of sekai.safety.learners, or anything with predict and "
            "predict_value: without a value nothing can be certified."
        )
    _require_another(learner, env)
    for problem, fix in reward_problems(env):
        raise ValueError(f"{env} cannot be certified: {problem} {fix}")
    provides_l = _provides_l(env)
    mode: Mode = getattr(learner, "mode", REACH_AVOID if provides_l else AVOID)
    if mode == REACH_AVOID and not provides_l:
        raise ValueError(f"{type(learner).__name__} is a reach-avoid learner, and {env} has no target margin l.")
    for _, dim in declared(env, "ctrl_action_dim"):
        if dim is not None:
            raise ValueError(
                f"{env} declares ctrl_action_dim = {dim}: the rest of an action is the disturbance's, which nobody "
                "chooses here. Give the System, or an environment whose disturbance is not 'player'."
            )
    if isinstance(env, VecEnv) and env.has_autoreset_options:
        raise ValueError(
            f"{env} has autoreset_options, and these episodes are begun by reset(), which does not ask for them: leave "
            "them out, and let the environment draw what they would say."
        )
    layer, behind = normalizing_layer(env), getattr(learner, "trained_behind", None)
    if layer is None and behind is not None:
        raise ValueError(
            f"The model was trained behind a {behind}, whose statistics it does not have, and {env} has no such layer: "
            "put one around it, with the statistics of the other (load_state_dict) and frozen, or train with "
            "normalize_observations=True."
        )
    if layer is not None and layer.moves:
        raise ValueError(
            f"The statistics of {layer.name} may be moving, and so would the policy: set its update_running_mean to "
            "False (of sekai's, `with vec.freeze()`), or train with normalize_observations=True, which keeps them in "
            "the policy."
        )
    return mode


def _require_another(learner: Any, env: Any) -> None:
    """Refuse the environment in which a learner trains: it would go on from where these episodes ended."""
    own = getattr(learner, "env", None)
    if own is not None and any(layer.held is env for _, layers in chains(own) for layer in layers):
        raise ValueError(
            f"{env} is where the learner trains, and its next transition would begin in an episode of the certificate: "
            "give an environment of its own, made in the same way."
        )


def _provides_l(env: Any) -> bool:
    """Whether an environment gives a target margin; it has to say so, of every sub-environment."""
    told = [bool(provides_l) for _, provides_l in declared(env, "provides_l")]
    if len(told) < len(list(chains(env))):
        raise ValueError(
            f"{env} does not say that its reward is a margin: put MarginWrapper around each, or, where its reward is g "
            "already, declare provides_l = False (or True, with info['l_x']) as an attribute."
        )
    if len(set(told)) > 1:
        raise ValueError(f"Some sub-envs of {env} provide l and others do not: give one that is of one kind.")
    return told[0]


def _target_margin(info: dict[str, Any], slot: int) -> float:
    """l of a step."""
    try:
        return float(info[TARGET_KEY])
    except KeyError:
        raise LookupError(f"The info of sub-env {slot} has no {TARGET_KEY!r}, its target margin.") from None
    except (TypeError, ValueError):
        given = info[TARGET_KEY]
        raise TypeError(f"info[{TARGET_KEY!r}] of sub-env {slot} is {given!r}; expected one number.") from None
