"""Observation wrappers without memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sekai.core.results import StepResult
from sekai.core.wrapper import ObservationWrapper
from sekai.errors import InvalidObservation, SpaceMismatch
from sekai.spaces import OneRow, flatten, flatten_space, readable
from sekai.wrappers.normalizing import NormalizesObservations, ObservationNormalizer, StatsKind
from sekai.wrappers.transforms import Transform, cast, filtered, require_fixed_size, rescaled


class _Transforming(ObservationWrapper):
    """An observation wrapper that is one `Transform`."""

    def _use(self, transform: Transform) -> None:
        self.observation_space = transform.space
        self._apply = transform.apply

    def observation(self, observation: Any) -> Any:
        """The transformed observation."""
        return self._apply(observation)


class NormalizeObservation(NormalizesObservations, ObservationWrapper):
    """Bring every `Box` part to mean 0 and variance 1, by the statistics of the observations seen.

    `(o - mean) / sqrt(var + epsilon)`, entry by entry; a `MaskedBox` by its occupied elements, padding stays zero.
    The last observation of an episode is normalised and does not count.

    Args:
        env: the environment to wrap; its observation space has at least one `Box` part.
        epsilon: added to the variance.
        stats: `"running"` weighs every observation alike, `"ewm"` forgets.
        halflife: of `"ewm"`, in steps: an observation so many steps back weighs half.
        clip: hold what is returned to `[-clip, clip]`.

    Attributes:
        obs_rms: the statistics; for a nested space they mirror its nesting.
        update_running_mean: set it to False to freeze them, or use `with env.freeze():`.

    Raises:
        TypeError: no `Box` part.
        ValueError: an argument out of range.
    """

    counts_rows = True
    vector_version = "VecNormalizeObservation"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        epsilon: float = 1e-8,
        *,
        stats: StatsKind = "running",
        halflife: float = 1000.0,
        clip: float | None = None,
    ) -> None:
        super().__init__(env)
        self._normalizer = ObservationNormalizer(env.observation_space, 1, epsilon, stats, halflife, clip)
        self._row = OneRow(env.observation_space)
        self.observation_space = self._normalizer.space

    def observation(self, observation: Any) -> Any:
        """The normalised observation; the statistics stay as they are."""
        return self._normalizer.normalize(observation)

    def after_step(self, result: StepResult) -> StepResult:
        """Count the observation, unless nobody will act on it; then normalise.

        Raises:
            InvalidObservation: it holds a number that is not finite; it does not count.
        """
        if not result.done or self.resets_itself:
            self._count(result.observation)
        return super().after_step(result)

    def after_reset(self, result: Any) -> Any:
        """Count the first observation, then normalise it."""
        self._count(result.observation)
        return super().after_reset(result)

    def _count(self, observation: Any) -> None:
        if self.updating:
            self._normalizer.update(self._row(observation))


class TransformObservation(ObservationWrapper):
    """Apply `func` to every observation.

    Args:
        env: the environment to wrap.
        func: observation in, observation out.
        new_observation_space: space of what `func` returns; needed where shape, dtype or structure change.

    Raises:
        SpaceMismatch: at the first observation, when the result does not fit the declared space.
    """

    vector_version = "VecTransformObservation"

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        func: Callable[[Any], Any],
        new_observation_space: gymnasium.Space[Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.func = func
        if new_observation_space is not None:
            self.observation_space = readable(new_observation_space)
        self._checked = False

    def observation(self, observation: Any) -> Any:
        """`func(observation)`."""
        transformed = self.func(observation)
        if not self._checked:
            self._check(transformed)
        return transformed

    def _check(self, transformed: Any) -> None:
        try:
            OneRow(self.observation_space)(transformed)
        except InvalidObservation as error:
            raise SpaceMismatch(
                f"TransformObservation: {error} Declare the space: new_observation_space=..."
            ) from error
        self._checked = True


class RescaleObservation(_Transforming):
    """Bring every `Box` part from its bounds to `[min_obs, max_obs]`, linearly.

    Float parts keep their dtype, integers become float32; a `MaskedBox` keeps its padding at zero.

    Args:
        env: an environment whose `Box` parts are bounded.
        min_obs: new lower bound, a number or an array of the part's shape.
        max_obs: new upper bound.

    Raises:
        TypeError: no `Box` part.
        ValueError: an unbounded part, or `min_obs < max_obs` does not hold.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], min_obs: ArrayLike, max_obs: ArrayLike) -> None:
        super().__init__(env)
        self._use(rescaled(env.observation_space, min_obs, max_obs, name="RescaleObservation"))


class DtypeObservation(_Transforming):
    """Cast every `Box` part to another dtype, its bounds included.

    Args:
        env: the environment to wrap.
        dtype: an integer or floating dtype that loses no fractions and holds the bounds.

    Raises:
        TypeError: another dtype, or no `Box` part.
        ValueError: the dtype cannot hold what it is given.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], dtype: DTypeLike) -> None:
        super().__init__(env)
        self._use(cast(env.observation_space, dtype))


class FilterObservation(_Transforming):
    """Keep some keys of a `Dict` observation, or some places of a `Tuple`, in the order given.

    Args:
        env: the environment to wrap.
        keys: which.

    Raises:
        TypeError: another observation space.
        ValueError: no key, one given twice, or one that is not there.
    """

    vector_version = "VecFilterObservation"

    def __init__(self, env: gymnasium.Env[Any, Any], keys: Iterable[Any]) -> None:
        super().__init__(env)
        self._use(filtered(env.observation_space, keys))


class FlattenObservation(_Transforming):
    """One array for all parts of an observation, discrete ones as a one among zeros (gymnasium's `flatten`).

    Args:
        env: an environment whose observations have one size.

    Raises:
        TypeError: observations of different sizes.
    """

    vector_version = "VecFlattenObservation"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        require_fixed_size(space, "FlattenObservation")
        self._use(Transform(flatten_space(space), partial(_flat, space)))


def _flat(space: gymnasium.Space[Any], value: Any) -> Any:
    return np.asarray(flatten(space, value))
