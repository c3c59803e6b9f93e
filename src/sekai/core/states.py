"""States of environments: flat dicts of plain arrays, which `np.savez` writes and `np.load` reads without pickle.

Names are dotted: `rng.bit_generator` belongs to the part `rng`. Reading a state builds and checks everything first,
so that a state which does not fit is refused before anything has changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_WORDS = 4  # of 32 bits: the largest number in the state of a generator of NumPy's has 128


def join(**parts: Mapping[str, Any]) -> Arrays:
    """One flat dict of the arrays of several parts, copied.

    Raises:
        TypeError: a value that is no plain array; the message names it.
    """
    joined: Arrays = {}
    for part, values in parts.items():
        for name, value in values.items():
            array = np.array(value)
            if array.dtype.kind not in "biufcSUmM":
                raise TypeError(
                    f"The state holds {name!r}, {value!r} of dtype {array.dtype}; expected an array of numbers, bools, "
                    "dates or text, or np.savez would pickle it."
                )
            joined[f"{part}.{name}"] = array
    return joined


def part_of(state: Arrays, part: str) -> Arrays:
    """The arrays of one part, by their names in it."""
    start = f"{part}."
    return {name.removeprefix(start): array for name, array in state.items() if name.startswith(start)}


def read_state(state: Any) -> Arrays:
    """What a user gave to `set_state`, as a dict of arrays: a dict, or what `np.load` returned.

    Raises:
        TypeError: anything else.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state is of type {type(state).__name__}; expected what get_state() or np.load() returned.")
    arrays = dict(state)
    for name, array in arrays.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise TypeError(f"state[{name!r}] is {array!r}; expected a plain array, as get_state() returns them.")
    return arrays


def check_like(given: Arrays, expected: Arrays, *, free: Collection[str] = ()) -> None:
    """Raise unless two states have the same names, shapes and dtypes; text may be of any length.

    Args:
        given: what is checked.
        expected: what it should look like.
        free: names of one-dimensional arrays of any length.

    Raises:
        ValueError: the message names the first difference.
    """
    missing, unknown = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    if missing or unknown:
        lacks = f"lacks {', '.join(map(repr, missing))}" if missing else ""
        has = f"has the unknown {', '.join(map(repr, unknown))}" if unknown else ""
        raise ValueError(
            f"The state {' and '.join(filter(None, (lacks, has)))}; expected what get_state() of an environment made "
            "of the same arguments returns."
        )
    for name, like in expected.items():
        array = given[name]
        same_type = array.dtype == like.dtype or array.dtype.kind == like.dtype.kind == "U"
        same_shape = array.ndim == 1 if name in free else array.shape == like.shape
        if not same_type or not same_shape:
            shape = "(any length,)" if name in free else like.shape
            raise ValueError(
                f"state[{name!r}] has shape {array.shape} and dtype {array.dtype}; expected shape {shape} and dtype "
                f"{like.dtype}."
            )


def check_same(given: Arrays, own: Arrays, owner: object) -> None:
    """Raise unless a state is of an environment with the same fixed properties.

    Args:
        given: the state.
        own: the properties of the environment that should take it, with their names in the state.
        owner: that environment.

    Raises:
        ValueError: the message names the property, what it is in the state and what is expected.
    """
    for name, value in own.items():
        other = given.get(name)
        if other is None or not np.array_equal(other, value):
            found = "missing" if other is None else repr(other.tolist())
            raise ValueError(
                f"state[{name!r}] is {found}; expected {value.tolist()!r}, that of {owner}: a state fits an "
                "environment of the same class, made of the same arguments."
            )


def to_text(value: Any, what: str, advice: str) -> str:
    """A plain value as text: None, bools, numbers, strings, and lists and dicts of them.

    Args:
        value: what is written; NumPy's numbers become Python's.
        what: its name in the error.
        advice: what to do, likewise.

    Raises:
        TypeError: anything else, which would not come back as it was.
    """
    try:
        text = json.dumps(value, default=_as_python)
        if bool(json.loads(text) == value):
            return text
    except (TypeError, ValueError):
        pass
    raise TypeError(
        f"{what} is {value!r}; expected None, bools, numbers, strings, and lists and dicts of them, or it would not "
        f"come back as it was: {advice}"
    )


def from_text(text: Any, what: str) -> Any:
    """What `to_text` wrote."""
    try:
        return json.loads(str(text))
    except ValueError:
        raise ValueError(f"{what} is {str(text)!r}; expected text as get_state() wrote it.") from None


def _as_python(value: Any) -> Any:
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    raise TypeError


def generator_arrays(rng: np.random.Generator | None) -> Arrays:
    """The state of a generator, and that of the seeds it spawns; nothing for None.

    Raises:
        TypeError: a generator that is not one of NumPy's, seeded by a `SeedSequence`.
    """
    if rng is None:
        return {}
    bits = rng.bit_generator
    seeds: Any = bits.seed_seq
    if _BIT_GENERATORS.get(type(bits).__name__) is not type(bits) or type(seeds) is not np.random.SeedSequence:
        raise TypeError(
            f"The generator's bits come from {type(bits).__name__}, seeded by {type(seeds).__name__}; expected one of "
            f"{', '.join(_BIT_GENERATORS)}, seeded by SeedSequence: other states cannot be saved."
        )
    state = dict(_flatten(bits.state))
    state["seeds.entropy"] = _entropy_words(seeds.entropy)
    state["seeds.spawn_key"] = np.array(seeds.spawn_key, np.uint32)
    state["seeds.pool_size"] = np.array(seeds.pool_size)
    state["seeds.children"] = np.array(seeds.n_children_spawned)
    return state


def generator_from(arrays: Arrays) -> np.random.Generator | None:
    """A new generator in the state that `generator_arrays` gave.

    Raises:
        ValueError: arrays of other names, shapes or dtypes.
    """
    if not arrays:
        return None
    name = str(arrays.get("bit_generator"))
    if name not in _BIT_GENERATORS:
        raise ValueError(f"state['rng.bit_generator'] is {name!r}; expected one of {', '.join(_BIT_GENERATORS)}.")
    kind = _BIT_GENERATORS[name]
    expected = generator_arrays(np.random.Generator(kind(0)))
    check_like(join(rng=arrays), join(rng=expected), free=("rng.seeds.entropy", "rng.seeds.spawn_key"))
    seeds = np.random.SeedSequence(
        arrays["seeds.entropy"],
        spawn_key=tuple(arrays["seeds.spawn_key"].tolist()),
        pool_size=int(arrays["seeds.pool_size"]),
        n_children_spawned=int(arrays["seeds.children"]),
    )
    bits: Any = kind(seeds)
    bits.state = _unflatten(bits.state, arrays)
    return np.random.Generator(bits)


def _flatten(state: Mapping[str, Any], start: str = "") -> Any:
    for name, value in state.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{start}{name}.")
        elif isinstance(value, (str, np.ndarray)):
            yield start + name, np.array(value)
        else:
            yield start + name, np.frombuffer(int(value).to_bytes(4 * _WORDS, "little"), "<u4").astype(np.uint32)


def _unflatten(like: Mapping[str, Any], arrays: Arrays, start: str = "") -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, value in like.items():
        if isinstance(value, Mapping):
            state[name] = _unflatten(value, arrays, f"{start}{name}.")
        elif isinstance(value, str):
            state[name] = str(arrays[start + name])
        elif isinstance(value, np.ndarray):
            state[name] = arrays[start + name].copy()
        else:
            state[name] = int.from_bytes(arrays[start + name].astype("<u4").tobytes(), "little")
    return state


def _entropy_words(entropy: Any) -> NDArray[np.uint32]:
    """The 32-bit words that a `SeedSequence` reads from its entropy, which may be a number or a list of numbers."""
    if not isinstance(entropy, (int, np.integer)):
        return np.concatenate([np.empty(0, np.uint32), *(_entropy_words(entry) for entry in entropy)])
    number = int(entropy)
    count = max(1, -(-number.bit_length() // 32))
    return np.frombuffer(number.to_bytes(4 * count, "little"), "<u4").astype(np.uint32)
