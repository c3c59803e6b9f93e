"""`check_env`: what is wrong with an environment, said before a learner finds out.

An episode is played with random actions, and another when it ends, until so many steps are taken. Nothing is raised
for what the environment does; it is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from sekai.core import Env, ResetResult, StepResult
from sekai.core.env import await_reset, await_step, call_reset, call_step, walk
from sekai.core.snapshot import snapshot
from sekai.core.wrapper import resets_itself
from sekai.errors import InvalidObservation
from sekai.spaces.checks import whole_number
from sekai.testing.calls import Stopped, called, frozen_statistics, on_a_loop_of_its_own, reporting, without_a_loop
from sekai.testing.problems import Problem, Problems
from sekai.testing.samples import check_observation
from sekai.vector.infos import same_value
from sekai.wrappers.masks import flatten_mask, gymnasium_mask, has_method, read_mask

#: episodes of one length that make a hidden time limit likely
SAME_LENGTHS = 3
#: steps of the comparison between the two ways of calling
AWAITED_STEPS = 100


class Episode(NamedTuple):
    """How an episode ended."""

    length: int
    terminated: bool
    truncated: bool


def check_env(
    env: Any,
    *,
    steps: int = 500,
    seed: int = 0,
    determinism: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Problem]:
    """Look for what a learner, a backend or a wrapper would trip over.

    Checked are the types of what `reset` and `step` return; observations, their dtypes and actions against the
    spaces; seeding; observations, infos and actions changed after the fact; draws from the global random state; action
    masks; awaitable calls against ordinary ones; and time limits that pass for ends of the task: every episode ends by
    `terminated` at one length, unless `metadata["finite_horizon"]` says that the deadline belongs to the task.

    Args:
        env: the environment, sekai's or gymnasium's. It is reset and stepped, and not closed.
        steps: how many to take.
        seed: of the environment and of the actions.
        determinism: also play everything twice and compare.
        progress: called with 1 after each step.

    Returns:
        The problems, an empty list where there are none.

    Example:
        >>> check_env(sekai.make("CartPole-v1"))
        []
    """
    steps = whole_number("steps", steps, minimum=1)
    problems = Problems()
    if not isinstance(env, gymnasium.Env):
        problems.add("type", f"{env!r} is a {type(env).__name__}.", "Derive it from sekai.Env, or from gymnasium.Env.")
        return problems.found
    with reporting(problems):
        _check_spaces(env, problems)
        with frozen_statistics(walk(env)):
            _check_seeding(env, problems, seed)
        episodes = _Rollout(env, problems, seed).play(steps, progress)
        problems.step = None
        check_endings(env.metadata, problems, episodes)
        if isinstance(env, Env):
            _check_awaited(env, problems, seed, min(steps, AWAITED_STEPS))
        if determinism:
            _check_determinism(env, problems, seed, steps)
    return problems.found


def _check_spaces(env: Any, problems: Problems) -> None:
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gymnasium.Space):
            problems.add(
                "spaces",
                f"{name} is {space!r}.",
                "Set it to a space, such as sekai.Box or sekai.Discrete, in __init__.",
            )
            raise Stopped
    for name in ("observation_space", "action_space"):
        space = deepcopy(getattr(env, name))
        space.seed(0)
        sample = space.sample()
        if not space.contains(sample):
            problems.add(
                "spaces",
                f"{name}.sample() gave {sample!r}, which is no member.",
                "Let sample() and contains() of the space agree.",
            )


def _check_seeding(env: Any, problems: Problems, seed: int) -> None:
    problems.step = 0

    def reset(given: int | None) -> Any:
        return snapshot(called(problems, f"reset(seed={given})", lambda: call_reset(env, given, None)).observation)

    first = reset(seed)
    generator = env.unwrapped._np_random
    if generator is None:
        problems.add(
            "seeding",
            "reset(seed=...) left the environment without a generator.",
            "Begin reset with self._set_rng(seed) (gymnasium: super().reset(seed=seed)).",
            "warning",
        )
    state = None if generator is None else generator.bit_generator.state
    if not same_value(reset(seed), first):
        problems.add(
            "seeding",
            f"reset(seed={seed}) gave two different first observations.",
            "Draw everything from self.rng (gymnasium: self.np_random).",
        )
    fresh = np.random.default_rng(seed).bit_generator.state
    if state is not None and not same_value(state, fresh):  # the reset draws
        env.unwrapped._np_random.random()  # from another place in the stream
        reset(None)
        if same_value(env.unwrapped._np_random.bit_generator.state, state):
            problems.add(
                "seeding",
                "reset() without a seed began the stream of random numbers anew.",
                "Seed the generator only where a seed is given: every episode would be the same.",
            )


class _Rollout:
    """Plays episodes and looks at every result."""

    def __init__(self, env: Any, problems: Problems, seed: int) -> None:
        self.env, self.problems, self.seed = env, problems, seed
        self.actions = deepcopy(env.action_space)
        self.actions.seed(seed)
        self.masked = has_method(env)
        self.itself = resets_itself(env)
        self.held: list[tuple[str, Any, Any]] = []  # name, what was returned, and a copy of then

    def play(self, steps: int, progress: Callable[[int], None] | None) -> list[Episode]:
        """Take so many steps; the episodes that ended."""
        episodes: list[Episode] = []
        self._reset(self.seed, 0)
        length = 0
        for step in range(1, steps + 1):
            result = self._step(step)
            length += 1
            if progress is not None:
                progress(1)
            if result.done:
                episodes.append(Episode(length, bool(result.terminated), bool(result.truncated)))
                length = 0
                if not self.itself:
                    self._reset(None, step)
        return episodes

    def _reset(self, seed: int | None, step: int) -> None:
        problems, env = self.problems, self.env
        problems.step = step
        result: ResetResult = called(problems, "reset()", lambda: call_reset(env, seed, None))
        self._look_back("reset()")
        check_observation(env.observation_space, result.observation, problems, "The first observation")
        self._hold(result.observation, result.info)

    def _step(self, step: int) -> StepResult:
        problems, env = self.problems, self.env
        action = self._action(self._mask())
        given = snapshot(action)
        problems.step = step
        result: StepResult = called(problems, f"step({given!r})", lambda: call_step(env, action))
        if not same_value(action, given):
            problems.add("action", f"step changed the action it was given, {given!r}.", "Work on a copy of it.")
        self._look_back("step()")
        self._check_result(result)
        self._hold(result.observation, result.info)
        return result

    def _check_result(self, result: StepResult) -> None:
        problems = self.problems
        if not isinstance(result.info, dict):
            problems.add("API", f"The info is {result.info!r}.", "Return a dict, {} where there is nothing to say.")
            raise Stopped
        for name in ("terminated", "truncated"):
            flag = getattr(result, name)
            if not isinstance(flag, (bool, np.bool_)):
                problems.add("API", f"{name} is {flag!r} ({type(flag).__name__}).", "Return True or False.")
                raise Stopped
        check_observation(self.env.observation_space, result.observation, problems, "The observation")
        reward = result.reward
        if not isinstance(reward, (int, float, np.integer, np.floating)) or not np.isfinite(reward):
            problems.add("reward", f"The reward is {reward!r}.", "Return one finite number, float(reward).")
        if result.info.get("TimeLimit.truncated") and not result.truncated:
            problems.add(
                "time limit",
                "info['TimeLimit.truncated'] is True and truncated is False.",
                "Say it by the flag: terminated False, truncated True.",
            )
        if self.itself and result.done:
            for name in ("final_observation", "final_info", "reset_info"):
                if name not in result.info:
                    problems.add("autoreset", f"The info of an ended episode has no {name!r}.", "Wrap in AutoReset.")

    def _hold(self, observation: Any, info: Any) -> None:
        self.held = [("observation", observation, snapshot(observation)), ("info", info, snapshot(info))]

    def _look_back(self, call: str) -> None:
        """Whether what was returned before has changed since."""
        for name, returned, then in self.held:
            if not same_value(returned, then):
                self.problems.add(
                    f"{name} reused",
                    f"{call} changed the {name} that an earlier call had returned.",
                    f"Return a new {'array' if name == 'observation' else 'dict'} each time: whoever keeps it, such as "
                    "a replay buffer, would keep the latest one many times.",
                    "error" if name == "observation" else "warning",
                )

    def _mask(self) -> Any:
        """The environment's action mask as gymnasium has it, None where it has none."""
        if not self.masked:
            return None
        mask = called(self.problems, "action_mask()", lambda: read_mask(self.env))
        try:
            flat = flatten_mask(self.env.action_space, mask, "The environment")
        except (InvalidObservation, TypeError) as error:
            self.problems.add("action mask", str(error), "Return an int8 entry per choice, 1 where it is allowed.")
            self.masked = False
            return None
        if not flat.any() and not isinstance(self.env.action_space, gymnasium.spaces.MultiBinary):
            self.problems.add(
                "action mask", "The mask allows no action while the episode goes on.", "End the episode there."
            )
            return None
        return gymnasium_mask(self.env.action_space, flat)

    def _action(self, mask: Any) -> Any:
        return self.actions.sample() if mask is None else self.actions.sample(mask=mask)


def check_endings(metadata: dict[str, Any], problems: Problems, episodes: list[Episode]) -> None:
    """Note where every episode ended by `terminated` at one length, and no deadline is declared."""
    lengths = {episode.length for episode in episodes}
    enough = len(episodes) >= SAME_LENGTHS and len(lengths) == 1 and lengths != {1}
    terminated = all(episode.terminated and not episode.truncated for episode in episodes)
    if enough and terminated and not metadata.get("finite_horizon"):
        problems.add(
            "time limit",
            f"All {len(episodes)} episodes ended by terminated after {lengths.pop()} steps: a time limit?",
            "If it is one, set truncated instead, or register the environment with max_episode_steps: a learner would "
            "take the value of the last state for 0. If the deadline is part of the task, say so: "
            "metadata['finite_horizon'] = True.",
            "warning",
        )


def _check_awaited(env: Env[Any, Any], problems: Problems, seed: int, steps: int) -> None:
    ordinary = _replay(env, problems, seed, steps, awaited=False)
    difference = _first_difference(ordinary, _replay(env, problems, seed, steps, awaited=True))
    if difference is None:
        return
    if _first_difference(ordinary, _replay(env, problems, seed, steps, awaited=False)) is not None:
        _check_determinism(env, problems, seed, steps)
        return
    problems.step, what = difference
    problems.add(
        "async",
        f"{what} of async_reset and async_step differs from that of reset and step.",
        "Let one of them call the other, or share what they do.",
    )


def _check_determinism(env: Any, problems: Problems, seed: int, steps: int) -> None:
    if problems.has("seeding"):
        return  # that is why
    runs = [_replay(env, problems, seed, steps, awaited=False) for _ in range(2)]
    difference = _first_difference(*runs)
    if difference is not None:
        problems.step, what = difference
        problems.add(
            "determinism",
            f"{what} differs between two runs with the same seed and the same actions.",
            "Draw everything from self.rng (gymnasium: self.np_random), and let reset forget the last episode.",
        )


def _replay(env: Any, problems: Problems, seed: int, steps: int, *, awaited: bool) -> list[Any]:
    """Snapshots of all results of a rollout."""
    actions = deepcopy(env.action_space)
    actions.seed(seed)
    itself, masked = resets_itself(env), has_method(env) and not problems.has("action mask")

    async def run() -> list[Any]:
        results: list[Any] = []

        async def reset(given: int | None) -> None:
            result = await await_reset(env, given, None) if awaited else call_reset(env, given, None)
            results.append(ResetResult(*map(snapshot, result)))

        await reset(seed)
        for _ in range(steps):
            action = actions.sample(mask=gymnasium_mask(actions, _flat(env))) if masked else actions.sample()
            result = await await_step(env, action) if awaited else call_step(env, action)
            results.append(StepResult(*map(snapshot, result)))
            if result.done and not itself:
                await reset(None)
        return results

    what = "async_reset and async_step" if awaited else "a second run"
    drive = on_a_loop_of_its_own if awaited else without_a_loop
    with frozen_statistics(walk(env)):
        results: list[Any] = called(problems, what, lambda: drive(run))
    return results


def _flat(env: Any) -> Any:
    return flatten_mask(env.action_space, read_mask(env), "The environment")


def _first_difference(a: list[Any], b: list[Any]) -> tuple[int, str] | None:
    """The step of the first difference between two replays, and what differs there."""
    step = 0
    for one, other in zip(a, b, strict=False):
        step += isinstance(one, StepResult)
        if type(one) is not type(other):
            return step, "The length of an episode"
        for name in one._fields:
            left, right = getattr(one, name), getattr(other, name)
            if name == "info":
                left, right = sorted(map(str, left)), sorted(map(str, right))  # values may tell the time of day
            if not same_value(left, right):
                return step, f"The {name}" if name != "info" else "A key of the info"
    return None
