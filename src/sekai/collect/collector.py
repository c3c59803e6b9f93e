"""`Collector`: steps a vector environment with a policy and hands out fragments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sekai.collect.counters import Counters
from sekai.collect.deciding import Decider
from sekai.collect.filling import Filler
from sekai.collect.fragment import Fragment
from sekai.collect.lockstep import LockStep
from sekai.collect.rows import Restart, source_of
from sekai.spaces.checks import whole_number


class Collector:
    """Steps a vector environment with a policy and hands out fragments of `fragment_length` rows.

    It works over every backend of sekai in every autoreset mode, and over gymnasium's vector environments in theirs.
    Episodes, and the policy's memory of them, go on from one fragment to the next.

    A call that raises leaves the rows collected so far as they are: the error is handed on, and the next `collect`
    goes on in the same row. Where an earlier row was lost that way, the next is of kind LOST, and what the slot does
    afterwards counts as a new episode.

    Args:
        vec: a `VecEnv`, or a `gymnasium.vector.VectorEnv`. The collector resets it when it begins and does not close
            it.
        policy: an object with `initial_state` and `act` (see `Policy`), or a function of observations.
        fragment_length: rows of a fragment, `T`.
        extras: names of the policy's extras to keep; by default all that its first decision has.
        infos: names of info columns to keep; every transition must have them.
        values: whether to keep values. Those of observations are `extras["value"]` where the policy gives it, else
            its `value(observations, state)`; those of final and tail observations are asked for with the state that
            their own episode left.
        state_stride: also keep the policy's state where `step_index` is a multiple of this.
        restart: under `autoreset="disabled"`, reset a slot in the call in which it ends (`"each"`), or all of them when
            all have ended (`"all"`); until then they return FROZEN rows.

    Attributes:
        num_slots: number of slots, `N`.

    Raises:
        TypeError: no vector environment, no policy, or no `value` where values are wanted.
        ValueError: an argument out of range.

    Example:
        >>> import sekai
        >>> from sekai.collect import Collector
        >>> vec = sekai.make_vec("CartPole-v1", 2)
        >>> collector = Collector(vec, lambda observations: [0, 1], fragment_length=4)
        >>> collector.collect().rewards.shape
        (4, 2)
    """

    def __init__(
        self,
        vec: Any,
        policy: Any,
        *,
        fragment_length: int,
        extras: Sequence[str] | None = None,
        infos: Sequence[str] = (),
        values: bool = False,
        state_stride: int | None = None,
        restart: Restart = "each",
    ) -> None:
        source = source_of(vec, restart)
        counters = Counters()
        if isinstance(infos, str) or isinstance(extras, str):
            raise TypeError("extras and infos are sequences of names; given one string.")
        decider = Decider(policy, source, extras=extras, values=values, counters=counters)
        self.num_slots = source.num_envs
        self._filler: Filler = LockStep(
            source,
            decider,
            counters,
            length=whole_number("fragment_length", fragment_length, minimum=1),
            stride=None if state_stride is None else whole_number("state_stride", state_stride, minimum=1),
            infos=dict.fromkeys(infos),
        )

    @property
    def counters(self) -> Counters:
        """What has been received so far."""
        return self._filler.counters

    def __iter__(self) -> Iterator[Fragment]:
        """Fragments without end."""
        while True:
            yield self.collect()

    def reset(self, *, seed: Any = None, options: Any = None) -> None:
        """Begin an episode in every slot, now; `collect` does so itself when it is first called.

        Rows of the fragment under way stay in it, the last ones marked as cut.

        Args:
            seed, options: what the vector environment's own `reset` takes.
        """
        self._filler.reset(seed, options)

    def collect(self) -> Fragment:
        """Collect until a fragment is full.

        Raises:
            Exception: whatever the environment or the policy raised; the rows so far are kept for the next call.
            ValueError, TypeError, LookupError: what the policy or the environment returned is not what was agreed.
        """
        return self._filler.collect()
