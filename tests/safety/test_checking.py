"""`check_safety_env`: a sound environment has no problems, and each way of being wrong is named, with its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.safety.contract import MarginWrapper, check_safety_env


class Walker(gymnasium.Env[Any, Any]):
    """x moves by .1 or less from 0. g = 1 - |x|, and l = .3 - |x - .5| where there is one. It fails beyond 1.

    The arguments break it: each is a function of the environment, after the step.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(
        self,
        *,
        with_l: bool = False,
        g: Callable[[Any], Any] | None = None,
        terminated: Callable[[Any], bool] | None = None,
        truncated: Callable[[Any], bool] | None = None,
        info: Callable[[Any], dict[str, Any]] | None = None,
        **declarations: Any,
    ) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.x, self.steps = 0.0, 0
        self.total = 0  # steps since construction
        self.with_l = with_l
        self.broken = {"g": g, "terminated": terminated, "truncated": truncated, "info": info}
        for name, value in declarations.items():
            setattr(self, name, value)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.steps = 0.0, 0
        return np.array([self.x]), {}

    def step(self, action: Any) -> Any:
        self.x += 0.1 * float(action[0])
        self.steps += 1
        self.total += 1
        sound = {
            "g": 1.0 - abs(self.x),
            "terminated": abs(self.x) > 1.0,
            "truncated": self.steps == 100,
            "info": {"l_x": 0.3 - abs(self.x - 0.5)} if self.with_l else {},
        }
        g, *flags, info = (sound[name] if how is None else how(self) for name, how in self.broken.items())
        return np.array([self.x]), g, *flags, info


def margin(env: Walker) -> float:
    return 1.0 - abs(env.x)


def texts(env: Any, steps: int = 1000) -> list[str]:
    return [str(problem) for problem in check_safety_env(env, steps=steps)]


@pytest.mark.parametrize("with_l", [False, True])
def test_a_sound_environment_has_no_problems(with_l: bool) -> None:
    assert texts(Walker(with_l=with_l)) == []
    assert texts(Walker(with_l=with_l, provides_l=with_l, g_range=(-0.1, 1.0))) == []


@pytest.mark.parametrize(
    ("cls", "mode"),
    [
        (sekai.SyncVecEnv, "same_step"),
        (sekai.SyncVecEnv, "next_step"),
        (sekai.SyncVecEnv, "disabled"),
        (sekai.ProcVecEnv, "same_step"),
    ],
)
def test_a_sound_vector_environment_has_none_in_any_autoreset_mode(cls: Any, mode: str) -> None:
    with cls([lambda: Walker(with_l=True, provides_l=True)] * 2, autoreset=mode) as vec:
        assert texts(vec, 300) == []


def test_what_resets_itself_is_read_through_its_final_info() -> None:
    env = sekai.AutoReset(Walker(with_l=True))
    assert texts(env) == []


def test_success_may_terminate() -> None:
    reached = {"terminated": lambda env: abs(env.x) > 1.0 or env.x > 0.5}
    assert texts(Walker(with_l=True, **reached)) == []


NEITHER = (
    "Let g be negative where the environment fails, and l >= 0 where it succeeds; end by truncated what is neither."
)
FINITE = "A margin is a finite number: find what makes it, and bound the margin where it has no limit."
EVERY = "Give l with every step of a reach-avoid environment, the last of an episode included."
CONTINUOUS = (
    "A margin is best a distance that changes continuously, also into a failure; a sign or a special value does not "
    "say how close it is."
)


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (
            {"terminated": lambda env: False},
            [
                "error: failure at step 11: g is -0.1, and the step is not terminated. Terminate where g < 0.",
                "error: after failure at step 12: The episode goes on after its failure at step 11, now with g = -0.2. "
                "Terminate in the step that fails: what follows would leak into the values before.",
            ],
        ),
        (
            {"terminated": lambda env: False, "truncated": lambda env: abs(env.x) > 1.0},
            [
                "error: failure at step 11: g is -0.1, and the step is truncated and not terminated. "
                "Terminate where g < 0."
            ],
        ),
        (
            {"terminated": lambda env: env.total == 7 or abs(env.x) > 1.0},
            [f"error: termination at step 7: The step is terminated, and g is 0.3. {NEITHER}"],
        ),
        (
            {"terminated": lambda env: env.total == 1 or abs(env.x) > 1.0, "with_l": True},
            [f"error: termination at step 1: The step is terminated, and g is 0.9 and l -0.1. {NEITHER}"],
        ),
        (
            {"g": lambda env: np.nan if env.total == 5 else margin(env)},
            [f"error: g finite at step 5: The reward is nan. {FINITE}"],
        ),
        (
            {"info": lambda env: {"l_x": -np.inf if env.total < 900 else 0.1}},
            [f"error: l finite at step 1: info['l_x'] is -inf. {FINITE}"],
        ),
        (
            {"g": lambda env: np.array([margin(env)]) if env.total == 3 else margin(env)},
            [
                "error: g type at step 3: The reward is array([0.7]) (ndarray, shape (1,)). "
                "Return the margin g as one float, float(g)."
            ],
        ),
        (
            {"info": lambda env: {"l_x": 0 if env.total == 4 else 0.1}},
            ["error: l type at step 4: info['l_x'] is 0 (int). Return the margin l as one float, float(l)."],
        ),
        (
            {"info": lambda env: {} if env.total in (6, 9) else {"l_x": 0.1}},
            [f"error: l missing at step 6: The info has no 'l_x', and other steps have it. {EVERY}"],
        ),
        (
            {"info": lambda env: {} if env.total < 990 else {"l_x": 0.1}},
            [f"error: l missing at step 1: The info has no 'l_x', and other steps have it. {EVERY}"],
        ),
        (
            {"provides_l": True},
            [f"error: l missing at step 1: The info has no 'l_x', and provides_l is True. {EVERY}"],
        ),
        (
            {"provides_l": False, "with_l": True},
            [
                "error: l declared at step 1: provides_l is False, and the info has 'l_x'. "
                "Declare provides_l = True, or leave l out: an avoid environment has none."
            ],
        ),
        (
            {"g_range": (-0.5, 0.75)},
            [
                "error: g range at step 1: g is 0.9, outside the declared g_range (-0.5, 0.75). "
                "Declare the range that g has: failure values are computed from it."
            ],
        ),
        (
            {"g": lambda env: 1.0 if abs(env.x) <= 1.0 else -1.0},
            [
                "warning: g jumps at step 11: g went from 1 to -1 in one step, and 90 % of its changes are at most 0. "
                f"{CONTINUOUS}"
            ],
        ),
        (
            {"g": lambda env: -5.0 if abs(env.x) > 1.0 else 0.5 + margin(env)},
            [
                "warning: g jumps at step 11: g went from 0.5 to -5 in one step, and 90 % of its changes are at most "
                f"0.1. {CONTINUOUS}"
            ],
        ),
        (
            {"info": lambda env: {"l_x": 0.5 if env.total == 30 else 0.01 * env.x}},
            [
                "warning: l jumps at step 30: l went from -0.001046 to 0.5 in one step, and 90 % of its changes are at "
                f"most 0.001. {CONTINUOUS}"
            ],
        ),
        (
            {"g": lambda env: max(0.25, margin(env)), "terminated": lambda env: False},
            [
                "warning: no failure: In 1000 steps g was never below 0; it was between 0.25 and 0.9957. "
                "Check that the failure set can be reached and that g is negative in it."
            ],
        ),
        (
            {"info": lambda env: {"l_x": -1.0 - abs(env.x)}},
            [
                "warning: no target: In 1000 steps l was never 0 or more; it was between -2.1 and -1. "
                "Check that it can be reached and that l is positive in it; random play may just not get there."
            ],
        ),
    ],
)
def test_each_way_of_being_wrong_is_named_and_no_other(broken: Any, expected: list[str]) -> None:
    assert texts(Walker(**broken)) == expected


def test_fast_margins_and_those_that_stand_still_do_not_jump() -> None:
    def fast(env: Walker) -> float:
        return 1.0 - abs(env.x) + 0.5 * np.sin(40.0 * env.x) * (abs(env.x) < 0.9)

    assert not any("jumps" in text for text in texts(Walker(g=fast)))
    # 0 but for 10 steps of 200, in which it goes up to .2 and down again by .04 each: 90 % of its changes are 0
    hills = {"info": lambda env: {"l_x": 0.04 * max(0, 5 - abs(env.total % 200 - 100))}}
    assert texts(Walker(**hills)) == []
    clipped = texts(Walker(g=lambda env: 1.0 if margin(env) > 0.05 else -1.0 if margin(env) < 0 else margin(env)))
    assert [text.split(" at ")[0] for text in clipped] == ["warning: g jumps"]


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_problems_of_later_episodes_are_met_in_every_autoreset_mode(mode: str) -> None:
    def broken() -> Any:
        return Walker(info=lambda env: {} if env.total == 150 else {"l_x": 0.1})

    with sekai.SyncVecEnv([broken, broken], autoreset=mode) as vec:
        (problem,) = check_safety_env(vec, steps=170)
        assert problem.step is not None and problem.step >= 150


@pytest.mark.parametrize("cls", [sekai.SyncVecEnv, sekai.ProcVecEnv])
def test_a_problem_of_one_slot_names_it(cls: Any) -> None:
    def broken() -> Any:
        return Walker(with_l=True, info=lambda env: {} if env.total == 5 else {"l_x": 0.3 - abs(env.x - 0.5)})

    with cls([lambda: Walker(with_l=True), broken]) as vec:
        assert texts(vec, 200) == [
            "error: l missing at step 5: sub-env 1: The info has no 'l_x', and other steps have it. Give l with every "
            "step of a reach-avoid environment, the last of an episode included."
        ]


def test_layers_and_actions_that_learners_refuse_are_reported() -> None:
    scaled = check_safety_env(sekai.TransformReward(Walker(), lambda g: 10.0 * g))
    assert [str(problem) for problem in scaled] == [
        "error: reward layer: Its reward is the safety margin g, and TransformReward changes it: the set g >= 0, or "
        "the scale of g, would be another. Leave it out, or put it inside of MarginWrapper; observations may be "
        "normalised."
    ]
    unbounded = Walker()
    unbounded.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    assert [problem.rule for problem in check_safety_env(unbounded)] == ["action space"]


def test_what_is_no_environment_and_what_raises_is_reported() -> None:
    vector = gymnasium.vector.SyncVectorEnv([Walker])
    assert texts(vector)[0].endswith(
        "is a SyncVectorEnv. Give an environment or a sekai.VecEnv (of gymnasium's vector environments: "
        "from_gymnasium_vector(env))."
    )

    def stumbles(env: Walker) -> float:
        raise ZeroDivisionError("no distance")

    (problem,) = check_safety_env(Walker(g=stumbles))
    assert (problem.rule, problem.step, problem.seen) == ("raises", 1, "step raised ZeroDivisionError: no distance")


def test_allowed_actions_only_are_played() -> None:
    class Masked(sekai.Env):
        observation_space = sekai.Box(-np.inf, np.inf, (1,), np.float64)
        action_space = sekai.Discrete(3)
        x = 0

        def reset(self, *, seed: Any = None, options: Any = None) -> sekai.ResetResult:
            self._set_rng(seed)
            self.x = 0
            return sekai.ResetResult(np.zeros(1), {})

        def action_mask(self) -> Any:
            return np.array([1, 1, self.x % 2], np.int8)

        def step(self, action: Any) -> sekai.StepResult:
            assert self.action_mask()[action]
            self.x += (-1, 1, 0)[action]
            return sekai.StepResult(np.array([float(self.x)]), 5.0 - abs(self.x), abs(self.x) > 5, False, {})

    assert texts(Masked()) == []
    with sekai.SyncVecEnv([Masked] * 2) as vec:
        assert texts(vec) == []


def test_ends_that_are_declared_to_be_kept_are_no_problem() -> None:
    def made(own_ends: Any) -> list[str]:
        env = gymnasium.make("CartPole-v1")  # which falls at 12 degrees; g is negative beyond 20
        margins = MarginWrapper(env, g=lambda state: 0.35 - abs(state.env.state[2]), own_ends=own_ends)
        return [problem.rule for problem in check_safety_env(margins)]

    assert made("keep") == made("truncate") == ["no failure"]
    assert "raises" in made("error")
