"""States of the finance environments as arrays, for the single ones and, with `N` slots, for the native ones.

    fixed.*        arguments settled when the environment is made, and the fingerprint of its history or price model
    parameters.*   the other arguments but the sampler, by name; those that are None are absent
    samplers.*     class and state of the sampler, and the states of those it has spawned
    slots.*        the arrays of the slots

The samplers' states are text (JSON), one a sampler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.core.states import Arrays, check_like, check_same, from_text, join, part_of, to_text
from sekai.envs.finance.market import fingerprint
from sekai.envs.finance.threads import Threads
from sekai.finance.costs import CostModel, ProportionalCost, from_plain, to_plain
from sekai.finance.rewards import Reward
from sekai.finance.samplers import EpisodeSampler

if TYPE_CHECKING:
    from sekai.envs.finance.parameters import ParameterEnv


class Slots(Protocol):
    """What the slots of every finance environment offer."""

    every: NDArray[np.int64]
    threads: Threads

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the state, by name; not copies."""

    def check(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Raise for arrays of the right shapes whose values no episode can have."""


def get_arrays(env: ParameterEnv, slots: Slots, spawned: list[EpisodeSampler]) -> Arrays:
    """The state of slots with the parameters of `env`; see the module.

    Args:
        env: the single environment, or the template of a native one.
        slots: what it runs in.
        spawned: the samplers of the slots; empty where there are none of their own.

    Raises:
        TypeError: a parameter or a sampler that plain arrays cannot hold.
    """
    return join(fixed=_fixed(env), parameters=_parameters(env), samplers=_samplers(env, spawned), slots=slots.arrays())


def set_arrays(env: ParameterEnv, slots: Slots, arrays: Arrays, others: Arrays) -> list[EpisodeSampler]:
    """Take over what `get_arrays` returned.

    Args:
        env, slots: as there.
        arrays: the state.
        others: arrays like those that the state holds besides.

    Returns:
        the samplers of the slots.

    Raises:
        TypeError, ValueError: the state does not fit; nothing has changed.
    """
    fixed = join(env=join(fixed=_fixed(env)))
    check_same(join(env=arrays), fixed, type(env).__name__)
    rest = {name: array for name, array in arrays.items() if not name.startswith("parameters.")}
    like = join(fixed=_fixed(env), samplers=_samplers(env, []), slots=slots.arrays())
    check_like(join(env=rest), join(env={**like, **others}), free=("env.samplers.spawned",))
    states = part_of(arrays, "slots")
    slots.check(states)
    parameters = _checked_parameters(env, part_of(arrays, "parameters"))
    spawned = _change(env, parameters, part_of(arrays, "samplers"), len(slots.every))
    for name, array in slots.arrays().items():
        array[...] = states[name]
    return spawned


def _fixed(env: ParameterEnv) -> Arrays:
    given = {name: getattr(env, name) for name in env.fixed_arguments()}
    values = {name: np.array(repr(value) if isinstance(value, Reward) else value) for name, value in given.items()}
    if "data" in env.argument_names():
        data, model = env.get_attr("data"), env.get_attr("model")
        simulated = "simulated" if model is None else f"simulated by {fingerprint(model)}"
        values["history"] = np.array(simulated if data is None else data.fingerprint)
    return values


# ---- parameters -----------------------------------------------------------------------------------


def _parameters(env: ParameterEnv) -> Arrays:
    arrays = {}
    for name, value in env._parameters.items():
        if value is None or name == "sampler":
            continue
        array = np.array(_plain_cost(value) if isinstance(value, CostModel) else value)
        if array.dtype.kind not in "biufU":
            raise TypeError(
                f"{name} is {value!r}; expected numbers or text, since a state is made of plain arrays: set such a "
                "one before get_state()."
            )
        arrays[name] = array
    return arrays


def _checked_parameters(env: ParameterEnv, arrays: Arrays) -> dict[str, Any]:
    known = env._parameters.keys() - {"sampler"}
    unknown = sorted(arrays.keys() - known)
    if unknown:
        raise ValueError(f"The state has the parameters {unknown}; expected some of {sorted(known)}.")
    values = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    if isinstance(values.get("cost_model"), str):
        values["cost_model"] = from_plain(from_text(values["cost_model"], "The cost model of the state"))
    return {name: getattr(type(env), name).check(name, values.get(name)) for name in known}


def _plain_cost(model: CostModel) -> Any:
    """The rate, or rates, of a `ProportionalCost`; of others names and arguments, as text."""
    if isinstance(model, ProportionalCost):
        return model.rate
    return to_text(to_plain(model), "cost_model", "use the cost models of sekai.finance.")


# ---- samplers -------------------------------------------------------------------------------------


def _samplers(env: ParameterEnv, spawned: list[EpisodeSampler]) -> Arrays:
    if "sampler" not in env._parameters:
        return {}
    sampler = env._parameters["sampler"]
    texts: dict[int, str] = {}  # by object, since the slots may share one
    for each in (sampler, *spawned):
        if id(each) not in texts:
            texts[id(each)] = to_text(each.get_state(), f"The state of {each}", _advice(each))
    return {
        "class": np.array(type(sampler).__qualname__),
        "state": np.array(texts[id(sampler)]),
        "spawned": np.array([texts[id(each)] for each in spawned], np.str_),
    }


def _advice(sampler: EpisodeSampler) -> str:
    return f"let {type(sampler).__name__} implement get_state() and set_state(state) with plain values."


def _change(env: ParameterEnv, parameters: dict[str, Any], saved: Arrays, num_slots: int) -> list[EpisodeSampler]:
    """Set the parameters and the sampler, or leave both as they are; return the samplers of the slots."""
    before = env._parameters
    if "sampler" not in before:
        env._set_parameters(**parameters)
        return []
    sampler: EpisodeSampler = before["sampler"]
    kind = {"env.samplers.class": np.array(type(sampler).__qualname__)}
    check_same(join(env=join(samplers=saved)), kind, type(env).__name__)
    if len(saved["spawned"]) not in (0, num_slots):
        raise ValueError(f"The state has samplers for {len(saved['spawned'])} slots; expected none, or {num_slots}.")
    state = _sampler_state(saved["state"])
    states = [_sampler_state(text) for text in saved["spawned"]]
    remembered = sampler.get_state()
    try:
        env._set_parameters(**parameters)
        sampler.set_state(state)
        spawned = [sampler.spawn() for _ in states]
        for each, own in zip(spawned, states, strict=True):
            if each is not sampler:
                each.set_state(own)
    except BaseException:
        env._set_parameters(**before)
        sampler.set_state(remembered)
        raise
    return spawned


def _sampler_state(text: Any) -> dict[str, Any]:
    state = from_text(text, "The state of a sampler")
    if not isinstance(state, dict):
        raise ValueError(f"The state of a sampler is {state!r}; expected a dict.")
    return state
