"""The layers of an environment that a learner is given, whoever has made them and wherever they run.

What lies outside, and so comes first:

    Stable-Baselines3's vector wrappers > sekai's adapter > sekai's vector wrappers > a vector environment
    > the wrappers of a sub-environment > the base environment

and gymnasium's vector environments with their wrappers alike. Stable-Baselines3 and the adapters, which this module
must not import, are recognised by the names of their classes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium

from sekai.core.env import class_names, walk
from sekai.vector import VecEnv

# classes around something else that neither gymnasium nor sekai's vector environments know as wrappers
_ADAPTERS = frozenset({"VecEnvWrapper", "Sb3VecEnv", "ToGymnasiumVector", "FromGymnasiumVector", "TensorVecEnv"})
_VECTOR_WRAPPERS = frozenset({"VecWrapper", "VectorWrapper"})
_VECTORS = frozenset({"VecEnv", "VectorEnv", "TensorVecEnv"})
_PLACES = ("venv", "vec", "env")
_MISSING = object()

#: classes whose reward is another than that of the environment inside; classes derived from them as well
TRANSFORMING = frozenset(
    {
        "RewardWrapper",  # sekai's and gymnasium's
        "VecRewardWrapper",
        "VectorRewardWrapper",
        "NormalizesRewards",
        "NormalizeReward",
        "VecNormalizeReward",
        "ClipReward",
        "VecClipReward",
        "TransformReward",
        "VecTransformReward",
        "VecNormalize",  # where it normalises rewards
        "ActionRepeat",  # the rewards of several steps are added
        "MaxAndSkipEnv",
        "AtariPreprocessing",
        "ClipRewardEnv",
        "AtariWrapper",
    }
)

#: classes whose observations are scaled by statistics that they keep themselves
NORMALIZING = frozenset(
    {
        "NormalizeObservation",  # sekai's and gymnasium's
        "VecNormalizeObservation",
        "TensorVecNormalize",
        "VecNormalize",  # where it normalises observations
    }
)

#: classes whose actions are in other units than those of the environment inside, or meant for another step
ACTING = frozenset(
    {"ActionWrapper", "VecActionWrapper", "VectorActionWrapper", "RescaleAction", "TransformAction", "DelayAction"}
)


class Layer(NamedTuple):
    """One layer.

    Attributes:
        name: of its class.
        bases: names of its class and of those that it derives from, as far as they are known.
        held: the layer; None where it lives in another process.
    """

    name: str
    bases: frozenset[str]
    held: Any = None

    @property
    def transforms(self) -> bool:
        """Whether it changes rewards."""
        found = self.bases & TRANSFORMING
        if found == {"VecNormalize"} and self.held is not None:
            return bool(self.held.norm_reward)
        return bool(found)

    @property
    def normalizes(self) -> bool:
        """Whether it scales observations by statistics of its own."""
        found = self.bases & NORMALIZING
        if found == {"VecNormalize"} and self.held is not None:
            return bool(self.held.norm_obs)
        if getattr(self.held, "handed_over", False):  # a `TensorVecNormalize` that a policy has taken over
            return False
        return bool(found)

    @property
    def moves(self) -> bool:
        """Whether its statistics may go on; of a layer that is not in this process nothing else is known."""
        return bool(getattr(self.held, "updating", getattr(self.held, "update_running_mean", True)))

    @property
    def makes(self) -> bool:
        """Whether its reward is a margin whatever the reward inside: a `MarginWrapper`, or what says `provides_l`."""
        if "MarginWrapper" in self.bases:
            return True
        if self.held is None or (self.bases & _ADAPTERS and _inside(self.held) is not None):
            return False  # an adapter hands on what is declared inside
        return _has(self.held, "provides_l")


def chains(env: Any) -> Iterator[tuple[int | None, list[Layer]]]:
    """The layers around each sub-environment, outermost first, with its index; None where there is one chain only.

    Of the sub-environments in the processes of a `sekai.VecEnv` the first one is shown.
    """
    outer, base = _outer(env)
    if (envs := _sub_envs(base)) is not None:
        inner = [[_layer(layer) for layer in walk(sub_env)] for sub_env in envs]
    elif isinstance(base, VecEnv):
        yield None, [*outer, *(Layer(bases[0], frozenset(bases)) for bases in base.layer_bases()[1:])]
        return
    else:
        inner = [[Layer(name, frozenset({name})) for name in names] for names in _printed(base)]
        if not inner:
            yield None, outer
    for slot, layers in enumerate(inner):
        yield slot, [*outer, *layers]


def changed_margins(env: Any) -> tuple[int | None, str] | None:
    """The outermost layer that changes rewards outside the one that makes the margins: sub-environment and class name.

    The name is `"a reward wrapper"` where it is in another process and cannot be told.
    """
    base = _outer(env)[1]
    far = "SubprocVecEnv" in class_names(base)
    wrong = _asked_workers(base) if far else []
    for slot, layers in chains(env):
        found = _changing(layers)
        if found is not None and not (far and found.held is None):
            return slot, found.name
        if far and slot is not None and wrong[slot]:
            return slot, "a reward wrapper" if found is None else found.name
    return None


def normalizing_layer(env: Any) -> Layer | None:
    """The outermost layer that scales observations by statistics of its own."""
    return next((layer for _, layers in chains(env) for layer in layers if layer.normalizes), None)


def changes_actions(env: Any) -> bool:
    """Whether a layer hands on other actions than it is given."""
    return any(layer.bases & ACTING for _, layers in chains(env) for layer in layers)


def declared(env: Any, name: str) -> list[tuple[int | None, Any]]:
    """What the sub-environments declare by an attribute, with their index; nothing of those that have none.

    The outermost layer that has it counts. No worker is asked for what it has not: some would end.
    """
    found: list[tuple[int | None, Any]] = []
    for slot, layers in chains(env):
        owner = next((layer.held for layer in layers if layer.held is not None and _has(layer.held, name)), None)
        if owner is not None:
            found.append((slot, getattr(owner, name)))
    return found or list(enumerate(_far_values(_outer(env)[1], name)))


class _Probe(type):
    """Makes `isinstance(env, probe)` ask about an environment where it lives.

    Stable-Baselines3 asks in its workers, layer by layer, whether an environment is wrapped in a class, and says yes or
    no. A question looks inwards only, since which layer is the outermost is not known there.
    """

    def __instancecheck__(cls, env: Any) -> bool:
        first, *rest = map(_layer, walk(env))
        changes = first.transforms and not first.makes
        if cls is MakesMargins:
            return first.makes
        return changes and (cls is TransformsReward or any(layer.makes for layer in rest))


class MakesMargins(metaclass=_Probe):
    """A layer that makes margins."""


class TransformsReward(metaclass=_Probe):
    """A layer that changes rewards."""


class TransformsMargins(metaclass=_Probe):
    """A layer that changes rewards, around one that makes margins."""


def _changing(layers: list[Layer]) -> Layer | None:
    """The outermost layer that changes rewards outside the outermost one that makes margins."""
    for layer in layers:
        if layer.makes:
            return None
        if layer.transforms:
            return layer
    return None


def _asked_workers(env: Any) -> list[bool]:
    """Whether margins are changed, of each sub-environment of a `SubprocVecEnv`."""
    over, changed, made = map(env.env_is_wrapped, (TransformsMargins, TransformsReward, MakesMargins))
    return [o or (c and not m) for o, c, m in zip(over, changed, made, strict=True)]


def _outer(env: Any) -> tuple[list[Layer], Any]:
    """The layers around all sub-environments, and the innermost of them; of a single environment all layers."""
    layers = [_layer(env)]
    while (inside := _inside(env)) is not None:
        env = inside
        layers.append(_layer(env))
    return layers, env


def _layer(env: Any) -> Layer:
    names = class_names(env)
    return Layer(names[0], frozenset(names), env)


def _has(layer: Any, name: str) -> bool:
    """Whether a layer itself has an attribute: some hand on those of the environment inside."""
    return inspect.getattr_static(layer, name, _MISSING) is not _MISSING


def _inside(env: Any) -> Any:
    """What a layer is around; None for a base environment, and where there are several."""
    if isinstance(env, gymnasium.Env):
        return env.env if isinstance(env, gymnasium.Wrapper) else None
    if (_ADAPTERS | _VECTOR_WRAPPERS).isdisjoint(class_names(env)):
        return None
    held = [vars(env)[name] for name in _PLACES if name in vars(env)]
    return next((value for value in held if not _VECTORS.isdisjoint(class_names(value))), None)


def _sub_envs(env: Any) -> list[Any] | None:
    """The sub-environments of a vector environment that holds them."""
    envs = vars(env).get("envs")
    if not isinstance(envs, (list, tuple)) or not all(isinstance(entry, gymnasium.Env) for entry in envs):
        return None
    return list(envs) or None


def _printed(env: Any) -> list[list[str]]:
    """The names in the text of every sub-environment in a process of another library, outermost first."""
    bases = class_names(env)
    if "SubprocVecEnv" in bases:
        texts = env.env_method("__str__")
    elif "AsyncVectorEnv" in bases:
        texts = env.call("__str__")
    else:
        texts = []
    return [_names_in(text) for text in texts]


def _names_in(text: str) -> list[str]:
    """The names in the text of an environment.

    gymnasium writes `<Outer<Inner>>` and sekai `Outer(Inner)`, so that around a sekai layer it is `<OuterInner(...)>`:
    such a word is cut where a name is known.
    """
    known = "|".join(sorted(TRANSFORMING | {"MarginWrapper"}, key=len, reverse=True))
    names: list[str] = []
    for word, bracket in re.findall(r"([A-Za-z_]\w*)(\(?)", text):
        names += re.findall(rf"{known}|\w+?(?={known}|$)", word) if bracket else [word]
    return names


def _far_values(env: Any, name: str) -> list[Any]:
    """An attribute of the sub-environments in other processes, in none of which it is missing; else nothing."""
    bases = class_names(env)
    if isinstance(env, VecEnv):
        try:
            return env.get_attr(name)
        except AttributeError:
            return []  # nothing is declared
    if "SubprocVecEnv" in bases:
        return list(env.get_attr(name)) if env.has_attr(name) else []
    if "AsyncVectorEnv" in bases:
        return list(env.get_attr(name)) if all(env.call("has_wrapper_attr", name)) else []
    return []
