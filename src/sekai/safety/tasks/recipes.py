"""Recipes: all that a training run is made from, as a YAML file.

    task: safety/DoubleIntegrator-v0
    algorithm: ppo
    steps: 400000
    learner_options:
      n_epochs: 5

Keys are the fields of `Recipe`; those that are left out have its defaults. Values are what JSON has: numbers (also
3e-4), text, true and false, null, lists, and mappings with text as keys. Nothing else is made of them: `yes` is text,
and so is a date.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from sekai.safety.tasks.registry import find_task
from sekai.spaces.checks import whole_number

RECIPE = "recipe.yaml"
OPTIONS = ("task_options", "learner_options")
#: arguments of a learner that a run gives itself
GIVEN_BY_RUN = ("policy", "env", "seed", "device")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training run.

    Attributes:
        task: id of a safety task.
        mode: `"avoid"` or `"reach-avoid"`; None for that of the task.
        algorithm: such as `"ppo"`.
        players: 1, or 2 with an adversary.
        seed: of the environments and the learner.
        steps: of the environments, all slots together.
        num_envs: slots.
        task_options: arguments of the task.
        learner_options: arguments of the learner.
        warmstart: folder of the run whose weights this one begins with; None for fresh ones.
    """

    task: str
    mode: str | None = None
    algorithm: str = "ppo"
    players: int = 1
    seed: int = 0
    steps: int = 400_000
    num_envs: int = 64
    task_options: dict[str, Any] = field(default_factory=dict)
    learner_options: dict[str, Any] = field(default_factory=dict)
    warmstart: str | None = None

    def __post_init__(self) -> None:
        for name in ("task", "algorithm", "mode", "warmstart"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name in ("mode", "warmstart")):
                raise TypeError(f"{name} is {value!r}; expected text.")
        for name, least in (("players", 1), ("seed", 0), ("steps", 1), ("num_envs", 1)):
            whole_number(name, getattr(self, name), minimum=least)
        for name in OPTIONS:
            value = getattr(self, name)
            if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
                raise TypeError(f"{name} is {value!r}; expected names of arguments with their values.")
        for name in GIVEN_BY_RUN:
            if name in self.learner_options:
                instead = ", and give the run's `seed` (--seed)" if name == "seed" else ""
                raise ValueError(f"learner_options has {name!r}, which the run gives by itself: leave it out{instead}.")


KEYS = tuple(part.name for part in fields(Recipe))


def read_recipe(path: Path) -> dict[str, Any]:
    """What a file says, which may be a part of a recipe.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no YAML, no mapping, a key twice, or a key that no recipe has.
    """
    try:
        said = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no recipe: {' '.join(str(error).split())}") from error
    if not isinstance(said, dict):
        raise ValueError(f"{path} is no recipe: it holds {said!r}; expected keys with values, such as `task: ...`.")
    for key in said:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key), KEYS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{path} has the key {key!r}, which no recipe has.{hint} Keys are: {', '.join(KEYS)}.")
    return said


def recipe_of(*parts: Mapping[str, Any]) -> Recipe:
    """One recipe of several parts, of which the later ones win; of options each by its name.

    Args:
        parts: by the names of `KEYS`; None stands for not given.

    Raises:
        ValueError: no task.
        TypeError: values of another kind.
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if value is None:
                continue
            both = name in OPTIONS and isinstance(value, dict) and isinstance(merged.get(name), dict)
            merged[name] = {**merged[name], **value} if both else value
    if "task" not in merged:
        raise ValueError("No task is given: name one, or a recipe with `task: ...`; `sekai list --tasks` shows all.")
    return Recipe(**merged)


def resolved(recipe: Recipe) -> Recipe:
    """The recipe with nothing left open.

    Raises:
        EnvNotFound: there is no such task.
        ValueError: what has no meaning for the task, with the reason.
    """
    task = find_task(recipe.task)
    end = recipe.task_options.get("end_criterion")
    task.learner(recipe.algorithm, players=recipe.players, mode=recipe.mode, end_criterion=end)
    warmstart = None if recipe.warmstart is None else str(Path(recipe.warmstart).absolute())
    return replace(recipe, task=task.id, mode=task.mode, algorithm=recipe.algorithm.lower(), warmstart=warmstart)


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe; `read_recipe` reads the same. An older file is replaced when the new one is whole."""
    plain = json.loads(json.dumps(asdict(recipe)))  # tuples and the like as what they are read as
    fresh = path.with_name(f"new-{path.name}")
    fresh.write_text(yaml.dump(plain, Dumper=_Dumper, sort_keys=False), encoding="utf-8")
    os.replace(fresh, path)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # an extra, and read as Any
    """YAML with numbers, truth values and null as in JSON."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes the texts that would be read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # equal options are written out


def _use_json_scalars() -> None:
    scalars = {
        "tag:yaml.org,2002:bool": (r"true|false", "tf"),
        "tag:yaml.org,2002:null": (r"null|~|", ["n", "~", ""]),
        "tag:yaml.org,2002:int": (r"[-+]?(0|[1-9]\d*)", "-+0123456789"),
        "tag:yaml.org,2002:float": (
            r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan",
            "-+0123456789.",
        ),
    }
    _Loader.yaml_implicit_resolvers = {}
    for tag, (pattern, first) in scalars.items():
        exact = re.compile(rf"^(?:{pattern})$")
        _Loader.add_implicit_resolver(tag, exact, list(first))
        _Dumper.add_implicit_resolver(tag, exact, list(first))


_use_json_scalars()
