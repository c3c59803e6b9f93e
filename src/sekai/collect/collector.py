"""`Collector`: steps a vector environment with a policy and hands out fragments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sekai.collect.counters import Counters
from sekai.collect.deciding import Decider
from sekai.collect.filling import Filler, Keeping
from sekai.collect.fragment import Fragment
from sekai.collect.lockstep import LockStep
from sekai.collect.overlapped import Overlapped
from sekai.collect.rows import Restart, Source, overlapping_source_of, source_of
from sekai.spaces import has_fixed_size
from sekai.spaces.checks import whole_number
from sekai.vector import NativeVecEnv


class Collector:
    """Steps a vector environment with a policy and hands out fragments of `fragment_length` rows.

    It works over every backend of sekai in every autoreset mode, and over gymnasium's vector environments in theirs.
    Episodes, and the policy's memory of them, go on from one fragment to the next.

    A call that raises leaves the rows collected so far as they are: the error is handed on, and the next `collect`
    goes on in the same row. Where an earlier row was lost that way, the next is of kind LOST, and what the slot does
    afterwards counts as a new episode.

    With `min_slots` the slots advance on their own, by `send` and `recv`, and a slow one does not hold up the others:
    the policy acts on those that have come back, and they go on. A slot that has its `T` rows waits until all have. In
    disabled mode the reset of a slot waits for the steps under way; the other modes have no such barrier.

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
        min_slots: how many slots to wait for at a time, from 1 to `N`; fewer where fewer lack rows. The policy then
            acts on `k` of the slots, whatever `k` is. None: all slots advance together, by `step`.
        share_observations: let the policy act on the rows of the fragment themselves, and a native environment write
            its observations right there, which saves a copy. The policy must not write to what it is given: NumPy
            raises ValueError; `torch.from_numpy` only warns, once, and does not protect the tensor. What it keeps it
            copies: a row holds the memory of its whole fragment, and a reset in the middle of a fragment writes it
            anew. True: over any vector environment. False: the arrays are the policy's own. None: over a native one
            where that can be.

    Attributes:
        num_slots: number of slots, `N`.

    Raises:
        TypeError: no vector environment, no policy, or no `value` where values are wanted.
        ValueError: an argument out of range, `min_slots` where slots cannot advance on their own, or
            `share_observations` together with `min_slots` or with observations that have no fixed size.

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
        min_slots: int | None = None,
        share_observations: bool | None = None,
    ) -> None:
        overlapping = None if min_slots is None else overlapping_source_of(vec, restart)
        source = source_of(vec, restart) if overlapping is None else overlapping
        self.num_slots = source.num_envs
        counters = Counters()
        if isinstance(infos, str) or isinstance(extras, str):
            raise TypeError("extras and infos are sequences of names; given one string.")
        decider = Decider(policy, source, extras=extras, values=values, counters=counters)
        keeping = Keeping(
            length=whole_number("fragment_length", fragment_length, minimum=1),
            stride=None if state_stride is None else whole_number("state_stride", state_stride, minimum=1),
            infos=dict.fromkeys(infos),
        )
        self._filler: Filler
        if overlapping is None:
            shares = _shares(vec, source, share_observations)
            self._filler = LockStep(source, decider, counters, keeping, shares=shares)
        else:
            if share_observations:
                raise ValueError(
                    "share_observations is True, and min_slots was given: slots that advance on their own do not stand "
                    "in the same row of the fragment. Leave out one of the two."
                )
            wanted = _checked_min_slots(min_slots, self.num_slots)
            self._filler = Overlapped(overlapping, decider, counters, keeping, min_slots=wanted)

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

        Raises:
            Exception: what the environment raised; with `min_slots` also what a step under way came to, in which case
                nothing was reset.
        """
        self._filler.reset(seed, options)

    def collect(self) -> Fragment:
        """Collect until a fragment is full.

        Raises:
            Exception: whatever the environment or the policy raised; the rows so far are kept for the next call.
            ValueError, TypeError, LookupError: what the policy or the environment returned is not what was agreed.
        """
        return self._filler.collect()


def _shares(vec: Any, source: Source, wanted: bool | None) -> bool:
    """Whether the policy acts on the rows of fragments."""
    can = has_fixed_size(source.observation_space)
    if wanted and not can:
        raise ValueError(
            f"share_observations is True, and observations of {source.observation_space} have no fixed size, so that "
            "they stand in a fragment as objects and not as arrays; leave it out."
        )
    return can and isinstance(vec, NativeVecEnv) if wanted is None else wanted


def _checked_min_slots(given: Any, num_slots: int) -> int:
    min_slots = whole_number("min_slots", given, minimum=1)
    if min_slots > num_slots:
        raise ValueError(f"min_slots is {min_slots}; expected 1 to {num_slots}, the number of slots.")
    return min_slots
