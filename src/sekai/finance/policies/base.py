"""What a baseline policy is, and how it reads its environment.

A policy is made for an environment, single or vector, reads what it needs to know of it by name when it is made (the
volatility, the levels of exposure, ...), and from then on turns batches of observations into batches of actions:

    policy = policies.AlmgrenChriss(env)
    observations, infos = env.reset(seed=0)
    observations, *_ = env.step(policy.act(observations))      # a vector environment
    observation, *_ = env.step(policy.act_one(observation))    # a single one, a batch of one

So it must see the observations as the environment makes them. What is set later is not read again: make a new policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import NDArray

from sekai.vector.base import VecEnv
from sekai.vector.infos import same_value


class Policy(ABC):
    """A rule from observations to actions.

    Args:
        env: the environment to act in, single or vector.

    Attributes:
        env: as given.
    """

    def __init__(self, env: Any) -> None:
        self.env = env

    @abstractmethod
    def act(self, observations: Any) -> NDArray[Any]:
        """The actions for a batch.

        Args:
            observations: as a vector environment returns them, one row for each slot.

        Returns:
            `(N, ...)`, of the dtype of the action space.
        """

    def act_one(self, observation: Any) -> Any:
        """The action for the observation of a single environment, a batch of one."""
        one = (
            {key: row[None] for key, row in observation.items()} if isinstance(observation, dict) else observation[None]
        )
        return self.act(one)[0]

    def reset(self, mask: Any = None) -> None:  # noqa: B027  # most have nothing to forget
        """Forget what was seen, in the slots of a bool `(N,)` mask or in all: their episodes begin anew.

        Call it where episodes begin. Most policies see all they need in the observations and have nothing to forget.
        """


def parameter(env: Any, name: str) -> Any:
    """An argument of the environment, the same for all slots.

    Raises:
        AttributeError: the environment has none of that name.
        ValueError: the slots have different ones.
    """
    values = slot_values(env, name)
    if any(not same_value(value, values[0]) for value in values[1:]):
        raise ValueError(f"{name} differs between the slots of {env}; a policy needs one for all: make one for each.")
    return values[0]


def slot_values(env: Any, name: str) -> list[Any]:
    """An attribute of every slot, one for a single environment."""
    return env.get_attr(name) if isinstance(env, VecEnv) else [env.get_wrapper_attr(name)]
