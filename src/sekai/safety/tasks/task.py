"""`SafetyTask`: an environment, its margins, and so the learner that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import gymnasium

from sekai.registry import make, make_vec
from sekai.registry.arguments import accepted
from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.chain import declared
from sekai.safety.margins import MarginWrapper
from sekai.safety.systems.base import System
from sekai.safety.tasks.algebra import Margin
from sekai.safety.tasks.margined import with_margins
from sekai.vector import SyncVecEnv, VecEnv

if TYPE_CHECKING:
    from sekai.safety.learners.base import SafetyLearner

EndCriterion: TypeAlias = Literal["failure", "reach-avoid", "timeout"]
#: options of a task that are those of the environment around a system, unless `make` names them itself
ENV_OPTIONS = ("disturbance", "end_criterion", "time_limit")


@dataclass(frozen=True, kw_only=True)
class SafetyTask:
    """What is to be learned: stay out of a failure set (avoid), or also reach a target (reach-avoid).

    The mode follows from the margins: with `l` it is reach-avoid, without it avoid. Players are no part of a task but
    of a run; a task only says whether a second one has something to do.

    Attributes:
        id: name of the task, `[namespace/]name[-vN]`.
        make: id of a registered environment, or a function of the task's options that makes a `System` or an
            environment.
        g: safety margin: of states `(..., S)` where `make` makes a system, else of a `MarginState`; `"own"` where what
            is made has it already.
        l: target margin likewise; None for an avoid task.
        supports_adversary: whether a disturbance can be chosen by a second player.
        end_criterion: an episode ends where g < 0 ("failure"), also where l >= 0 ("reach-avoid"), or only at its time
            limit ("timeout": to look at, not to learn from).
        warmstart_from: id of the task whose runs may give their weights to one of this task.
        description: a line for people.

    Example:
        >>> SafetyTask(id="upright", make="Pendulum-v1", g=lambda state: 1.0 - abs(state.env.state[0])).mode
        'avoid'
    """

    id: str
    make: str | Callable[..., Any]
    g: Margin | Literal["own"]
    l: Margin | Literal["own"] | None = None  # noqa: E741  # the name of the channel
    supports_adversary: bool = False
    end_criterion: EndCriterion = "failure"
    warmstart_from: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.make, str) and not callable(self.make):
            raise TypeError(f"make is {self.make!r}; expected the id of an environment, or a function that makes one.")
        for name, margin in (("g", self.g), ("l", self.l)):
            if not callable(margin) and margin != "own" and not (name == "l" and margin is None):
                raise TypeError(f"{name} is {margin!r}; expected a function of states, or 'own'.")
        if self.l is not None and (self.g == "own") != (self.l == "own"):
            raise ValueError(f"g is {self.g!r} and l is {self.l!r}; expected both to be 'own', or neither.")
        self._check_end(self.end_criterion)

    @property
    def mode(self) -> Mode:
        """`"avoid"` or `"reach-avoid"`."""
        return AVOID if self.l is None else REACH_AVOID

    def env(self, **options: Any) -> gymnasium.Env[Any, Any]:
        """One environment under the contract (`sekai.safety.contract`).

        Args:
            options: arguments of what is made, and, around a system, `disturbance`, `end_criterion` and `time_limit`.

        Raises:
            TypeError, ValueError: options that do not fit; what is made does not have the margins, or the disturbance,
                that the task says.
        """
        return self._made(options)[0]

    def vec(self, num_envs: int, **options: Any) -> VecEnv:
        """`num_envs` environments, native where there are such; arguments and errors as for `env`."""
        env, build = self._made(options)
        env.close()
        return build(num_envs)

    def system(self, **options: Any) -> System | None:
        """The dynamics of the task as a function of states; None where there are none."""
        env, _ = self._made(options)
        try:
            system = getattr(env.unwrapped, "system", None)
        finally:
            env.close()
        # margins around an environment are others than those of a system in it
        return system if isinstance(system, System) and not isinstance(env, MarginWrapper) else None

    def learner(
        self, algorithm: str, *, players: int = 1, mode: str | None = None, end_criterion: str | None = None
    ) -> type[SafetyLearner]:
        """The class that learns this task, of `resolve_learner`.

        Args:
            algorithm: such as `"ppo"`.
            players: 1, or 2 with an adversary.
            mode: None, or the one of the task.
            end_criterion: of the run; None for that of the task.

        Raises:
            ValueError: what has no meaning here, or that there is no such learner.
        """
        if mode is not None and mode != self.mode:
            why = "has no target margin l" if self.l is None else "has a target margin l, which avoid has no place for"
            raise ValueError(f"mode is {mode!r}, and {self.id} is a task of mode {self.mode!r}: it {why}.")
        criterion = self.end_criterion if end_criterion is None else self._check_end(end_criterion)
        if criterion == "timeout":
            ends = "'failure'" if self.l is None else "'failure', or 'reach-avoid'"
            raise ValueError(
                f"end_criterion is 'timeout', with which {self.id} goes on after failures: what is seen there would "
                f"leak into the values before. Learners need an end where g < 0: {ends}."
            )
        if players != 1 and not self.supports_adversary:
            raise ValueError(
                f"players is {players}, and {self.id} has nothing for an adversary to choose: use 1. A task whose "
                "system has a disturbance says so by supports_adversary=True."
            )
        from sekai.safety.learners import resolve_learner  # torch, only where something is learned

        return resolve_learner(self.mode, algorithm, players)

    def _check_end(self, criterion: str) -> EndCriterion:
        if criterion not in get_args(EndCriterion):
            expected = ", ".join(map(repr, get_args(EndCriterion)))
            raise ValueError(f"end_criterion is {criterion!r}; expected one of {expected}.")
        if criterion == "reach-avoid" and self.l is None:
            raise ValueError(f"end_criterion is 'reach-avoid', and {self.id} has no l, so no target: use 'failure'.")
        return cast(EndCriterion, criterion)

    def _made(self, options: dict[str, Any]) -> tuple[gymnasium.Env[Any, Any], Callable[[int], VecEnv]]:
        """A checked environment, and a function that builds a vector environment of such."""
        given = dict(options)
        criterion = self._check_end(given.pop("end_criterion", self.end_criterion))
        if callable(self.make):
            taken = accepted(self.make).names
            around = {name: given.pop(name) for name in ENV_OPTIONS if name in given and name not in taken}
            made = self.make(**given)
            if isinstance(made, System):
                return self._of_system(made, criterion, around)
            if not isinstance(made, gymnasium.Env):
                raise TypeError(f"make of {self.id} returned {made!r}; expected a System or an environment.")
            if around:
                raise TypeError(f"{self.id} takes no option {next(iter(around))!r}: it makes its own environment.")
            build: Callable[[], gymnasium.Env[Any, Any]] = partial(self.make, **given)
        else:
            if self.g == "own" and criterion != "failure":
                given["end_criterion"] = criterion  # "failure" is what the contract says, and need not be known
            build = partial(make, self.make, **given)
            made = build()
        if self.g == "own":
            self._check_own(made, criterion)
            if isinstance(self.make, str):
                return made, partial(make_vec, self.make, **given)
            return made, lambda num_envs: SyncVecEnv([build] * num_envs)
        wrap = partial(
            MarginWrapper,
            g=self.g,
            l=cast(Any, self.l),  # a function or None: g is a function
            terminate=criterion != "timeout",
            end_on_target=criterion == "reach-avoid",
        )
        return wrap(made), lambda num_envs: SyncVecEnv([lambda: wrap(build())] * num_envs)

    def _of_system(
        self, made: System, criterion: str, around: dict[str, Any]
    ) -> tuple[gymnasium.Env[Any, Any], Callable[[int], VecEnv]]:
        # late: the systems by name, which environments know, have tasks among them
        from sekai.safety.envs import SafetyEnv, SafetyVecEnv

        system = made if self.g == "own" else with_margins(made, g=self.g, l=cast(Any, self.l))
        env = SafetyEnv(system, end_criterion=criterion, **around)
        self._check_own(env, criterion)
        return env, lambda num_envs: SafetyVecEnv(num_envs, system, end_criterion=criterion, **around)

    def _check_own(self, env: gymnasium.Env[Any, Any], criterion: str) -> None:
        """Whether the margins, and the disturbance, are what the task says."""
        provides_l = any(value for _, value in declared(env, "provides_l"))
        if provides_l and self.l is None:
            raise ValueError(
                f"{self.id} is an avoid task, and what it makes has a target: take a task with l='own', or leave the "
                "target out."
            )
        if not provides_l and self.l is not None:
            raise ValueError(f"{self.id} is a reach-avoid task, and what it makes has no target margin l.")
        system = getattr(env.unwrapped, "system", None)
        if self.supports_adversary and isinstance(system, System) and system.disturbance is None:
            raise ValueError(f"{self.id} supports an adversary, and {system} has no disturbance to choose.")
