"""The state of a native vector environment as arrays: what the base class keeps, and around it what the hooks give.

class, vec.num_envs, ...   what must be the same in the environment that takes the state
vec.phase, ...             the bookkeeping of the base class
rng.*                      the generator; absent where none was made yet
held.*, actions.*          last rows of frozen slots, last actions, one array for each leaf; absent likewise
env.*                      what `_get_state` returned
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.slots import Phase
from sekai.core.states import (
    Arrays,
    check_like,
    check_same,
    from_text,
    generator_arrays,
    generator_from,
    join,
    part_of,
    read_state,
    to_text,
)
from sekai.spaces import empty_batch, has_fixed_size, map_arrays

if TYPE_CHECKING:
    from sekai.vector.native import NativeVecEnv

_NO_LIMIT = -1
_PARTS = ("rng", "held", "actions", "env")  # of names that vary, each checked by itself


def save(vec: NativeVecEnv) -> Arrays:
    """The state; see the module."""
    own = vec._get_state()
    if not isinstance(own, dict):
        raise TypeError(f"{type(vec).__name__}._get_state() returned {own!r}; expected a dict of arrays.")
    return {
        **_fixed(vec),
        **join(
            vec={**_bookkeeping(vec), "next_options": _prepared(vec)},
            rng=generator_arrays(vec._rng),
            held=_leaves(vec.observation_space, vec._held),
            actions=_leaves(vec.action_space, vec._last_actions),
            env=own,
        ),
    }


def load(vec: NativeVecEnv, state: Any) -> None:
    """Take over a state; everything of the base class is read and checked before the hook is called."""
    given = read_state(state)
    fixed = _fixed(vec)
    check_same(given, fixed, vec)
    rest = {name: array for name, array in given.items() if name.partition(".")[0] not in _PARTS}
    like = {**_bookkeeping(vec), "next_options": np.zeros(vec.num_envs, np.str_)}
    check_like(rest, {**fixed, **join(vec=like)}, free=("vec.unasked",))
    rng = generator_from(part_of(given, "rng"))
    held = _batch(vec.observation_space, vec.num_envs, part_of(given, "held"), "held")
    actions = _batch(vec.action_space, vec.num_envs, part_of(given, "actions"), "actions")
    kept = part_of(given, "vec")
    _check_values(kept, vec.num_envs, held)
    options = [_options(text, slot) for slot, text in enumerate(kept["next_options"])]
    own = {name: array.copy() for name, array in part_of(given, "env").items()}
    vec._check_state(own)
    vec._set_state(own)
    limit = int(kept["max_episode_steps"])
    vec.max_episode_steps = None if limit == _NO_LIMIT else limit
    vec.phase[:] = kept["phase"]
    vec.frozen = kept["frozen"].copy()
    vec.elapsed_steps[:] = kept["elapsed_steps"]
    vec._flags = kept["flags"].copy()
    vec._lost = kept["lost"].copy()
    vec._episode = kept["episode"].tolist()
    vec._unasked = set(kept["unasked"].tolist())
    vec._next_options = options
    vec._rng, vec._held, vec._last_actions, vec._unfinished = rng, held, actions, None
    vec._settle()


def _fixed(vec: NativeVecEnv) -> Arrays:
    return {
        "class": np.array(type(vec).__qualname__),
        "vec.num_envs": np.array(vec.num_envs),
        "vec.autoreset": np.array(vec.autoreset.value),
        "vec.autoreset_options": np.array(vec._autoreset_options is not None),
    }


def _bookkeeping(vec: NativeVecEnv) -> Arrays:
    vec._note_unfinished()
    return {
        "phase": vec.phase,
        "frozen": vec.frozen,
        "elapsed_steps": vec.elapsed_steps,
        "flags": vec._flags,
        "lost": vec._lost,
        "episode": np.array(vec._episode, np.int64),
        "unasked": np.array(sorted(vec._unasked), np.int64),
        "max_episode_steps": np.array(_NO_LIMIT if vec.max_episode_steps is None else vec.max_episode_steps),
    }


def _prepared(vec: NativeVecEnv) -> NDArray[np.str_]:
    advice = "let autoreset_options return such options."
    texts = [
        to_text(options, f"What autoreset_options gave for sub-env {slot}", advice)
        for slot, options in enumerate(vec._next_options)
    ]
    return np.array(texts)


def _leaves(space: gymnasium.Space[Any], batch: Any) -> Arrays:
    """The arrays of a batch, numbered in the order of the space."""
    if batch is None:
        return {}
    if not has_fixed_size(space):
        raise TypeError(f"The state holds a batch of {space}; samples without a fixed size cannot be saved as arrays.")
    leaves: list[Any] = []
    map_arrays(leaves.append, batch)
    return {str(place): leaf for place, leaf in enumerate(leaves)}


def _batch(space: gymnasium.Space[Any], n: int, arrays: Arrays, part: str) -> Any:
    """The batch whose leaves are `arrays`; None where there are none."""
    if not arrays:
        return None
    batch = empty_batch(space, n)
    leaves = _leaves(space, batch)
    check_like(join(**{part: arrays}), join(**{part: leaves}))
    for place, leaf in leaves.items():
        leaf[...] = arrays[place]
    return batch


def _check_values(arrays: Arrays, n: int, held: Any) -> None:
    """Refuse values that the bookkeeping could not have written, and that would index anything out of range."""
    phase, unasked, limit = arrays["phase"], arrays["unasked"], arrays["max_episode_steps"]
    if not np.isin(phase, [int(entry) for entry in Phase]).all():
        raise ValueError(f"state['vec.phase'] is {phase.tolist()}; expected numbers from 0 to {len(Phase) - 1}.")
    if not ((unasked >= 0) & (unasked < n)).all():
        raise ValueError(f"state['vec.unasked'] is {unasked.tolist()}; expected slots in [0, {n}).")
    if limit < 1 and limit != _NO_LIMIT:
        raise ValueError(f"state['vec.max_episode_steps'] is {limit}; expected {_NO_LIMIT} for none, or at least 1.")
    if held is None and (phase >= Phase.WAITING).any():
        raise ValueError("The state has slots that wait for a reset, and no 'held.*': their last rows are missing.")


def _options(text: Any, slot: int) -> dict[str, Any] | None:
    options = from_text(text, f"state['vec.next_options'][{slot}]")
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"state['vec.next_options'][{slot}] is {options!r}; expected a dict or null.")
    return options
