"""Recipes: read as JSON would be, refused where a key is unknown, and written so that they reproduce a run."""

from __future__ import annotations

import json
import math
import re
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("yaml")
pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from sekai.errors import EnvNotFound
from sekai.safety.tasks.recipes import KEYS, Recipe, read_recipe, recipe_of, resolved, write_recipe

WALLS = "safety/DoubleIntegrator-v0"
TOUCH = "safety/DoubleIntegratorTouch-v0"

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["yes", "no", "on", "null", "~", "", "true", "3e-4", "1e5", "010", "1_0", "1:30", "2020-01-01"]),
    st.sampled_from(["<<", "=", ".inf", ".nan", "0x1f", "- a", "a: b", "#", "'", '"', "\x85", "\u2028", "\ufeff"]),
)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
options = st.dictionaries(texts, values, max_size=4)


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path)


@given(options, options, st.integers(0, 2**40))
def test_what_is_written_is_read_again(task_options: Any, learner_options: Any, seed: int) -> None:
    recipe = Recipe(task=WALLS, task_options=task_options, learner_options=learner_options, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        write_recipe(recipe, path)
        assert Recipe(**read_recipe(path)) == recipe
        assert [entry.name for entry in path.parent.iterdir()] == ["recipe.yaml"]


def test_values_are_those_of_json(tmp_path: Path) -> None:
    said = read(
        tmp_path,
        "task: yes\nlearner_options: {a: 3e-4, b: 1.5, c: -2, d: true, e: null, f: no, g: 010, h: 2020-01-01,\n"
        "  i: .inf, j: 1:30, k: ~, l: [1, [2]], m: '1', n: 1E+3, o: 0x10, p: }\n",
    )
    assert said == {
        "task": "yes",
        "learner_options": {
            **{"a": 3e-4, "b": 1.5, "c": -2, "d": True, "e": None, "f": "no", "g": "010", "h": "2020-01-01"},
            **{"i": math.inf, "j": "1:30", "k": None, "l": [1, [2]], "m": "1", "n": 1000.0, "o": "0x10", "p": None},
        },
    }
    assert [type(said["learner_options"][name]) for name in "abcd"] == [float, float, int, bool]


def test_an_unknown_key_is_refused_with_the_closest_one(tmp_path: Path) -> None:
    message = (
        f"{tmp_path / 'recipe.yaml'} has the key 'num_env', which no recipe has. Did you mean 'num_envs'? Keys are: "
        "task, mode, algorithm, players, seed, steps, num_envs, task_options, learner_options, warmstart."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read(tmp_path, f"task: {WALLS}\nnum_env: 3\n")
    with pytest.raises(ValueError, match=r"has the key 7, which no recipe has\. Keys are: task"):
        read(tmp_path, "7: 3\n")
    assert tuple(part.name for part in fields(Recipe)) == KEYS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it holds None; expected keys with values, such as `task: ...`."),
        ("- task", "it holds ['task']; expected keys with values"),
        ("task: [", "is no recipe: while parsing"),
        ("seed: 1\nseed: 2", "the key 'seed' stands twice"),
        ("learner_options: {a: 1, b: {c: 1, c: 1}}", "the key 'c' stands twice"),
        ("task: !!python/name:os.system", "could not determine a constructor"),
    ],
)
def test_what_is_no_recipe_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "recipe.yaml") in str(caught.value) and "\n" not in str(caught.value)


def test_later_parts_win_and_options_do_so_by_name() -> None:
    recipe = recipe_of(
        {"task": WALLS, "seed": 1, "learner_options": {"n_steps": 16, "n_epochs": 2}, "task_options": {"dt": 0.1}},
        {"seed": 0, "steps": None, "learner_options": {"n_steps": 32}, "task_options": {}},
    )
    expected = {"n_steps": 32, "n_epochs": 2}
    assert recipe == Recipe(task=WALLS, seed=0, learner_options=expected, task_options={"dt": 0.1})
    with pytest.raises(ValueError, match=r"^No task is given: name one, or a recipe"):
        recipe_of({"seed": 1})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"task": 3}, TypeError, "task is 3; expected text."),
        ({"algorithm": None}, TypeError, "algorithm is None; expected text."),
        ({"mode": True}, TypeError, "mode is True; expected text."),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"steps": 0}, ValueError, "steps is 0"),
        ({"steps": "many"}, TypeError, "steps is 'many'"),
        ({"num_envs": 1.5}, TypeError, "num_envs is 1.5"),
        ({"task_options": [1]}, TypeError, "task_options is [1]; expected names of arguments with their values."),
        ({"learner_options": {1: 2}}, TypeError, "learner_options is {1: 2}; expected names of arguments"),
    ],
)
def test_values_of_another_kind_are_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Recipe(**{"task": WALLS, **given})


def test_nothing_is_left_open_in_a_resolved_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = resolved(Recipe(task="safety/DoubleIntegratorTouch", algorithm="PPO", warmstart="other"))
    assert recipe == Recipe(task=TOUCH, mode="reach-avoid", algorithm="ppo", warmstart=str(tmp_path / "other"))
    assert resolved(recipe) == recipe
    assert json.loads(json.dumps(recipe.__dict__)) == recipe.__dict__


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"task": "safety/Nothing-v0"}, EnvNotFound, "safety/Nothing-v0 is no safety task"),
        ({"mode": "reach-avoid"}, ValueError, "it has no target margin l."),
        ({"mode": "safe"}, ValueError, "mode is 'safe', and safety/DoubleIntegrator-v0 is a task of mode 'avoid'"),
        ({"algorithm": "trpo"}, ValueError, "No learner of ('avoid', 'trpo', 1)"),
        ({"task": "safety/DoubleIntegratorForce-v0", "players": 3}, ValueError, "No learner of ('avoid', 'ppo', 3)"),
        ({"players": 2}, ValueError, "has nothing for an adversary to choose: use 1."),
        ({"task_options": {"end_criterion": "timeout"}}, ValueError, "end_criterion is 'timeout'"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        resolved(replace(Recipe(task=WALLS), **given))
