"""Observations normalised inside a policy: its statistics are buffers of the model, and saved with it.

    raw observation > ObservationNormalizer > the policy's own features extractor > networks

Every network of a policy (actor, critic, target) has one and the same normaliser.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sekai.safety.arrays import Tensor
from sekai.safety.tensor.statistics import RunningMoments

#: normalised observations stay within [-CLIP, CLIP]
CLIP = 10.0
EXTRACTORS = ("features_extractor", "pi_features_extractor", "vf_features_extractor")


class ObservationNormalizer(nn.Module):  # type: ignore[misc]  # torch is an extra, and read as Any
    """Running statistics of observations; of a `Dict` each part that is a `Box` of floats has its own.

    Parts that are no floats (pixels, choices) stay as they are: Stable-Baselines3 scales and encodes them.

    Raises:
        TypeError: nothing in the space is a `Box` of floats.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        parts: dict[Any, Any] = dict(space.spaces) if isinstance(space, spaces.Dict) else {None: space}
        boxes = {key: part for key, part in parts.items() if isinstance(part, spaces.Box) and part.dtype.kind == "f"}
        if not boxes:
            raise TypeError(
                f"normalize_observations=True needs a Box of floats in the observation space, which is {space}: leave "
                "it False."
            )
        self.keys = list(boxes)  # None: the observation itself
        self.statistics = nn.ModuleList(RunningMoments(box.shape, clip=CLIP) for box in boxes.values())

    def update(self, observations: Any) -> None:
        """Take in observations `(N, ...)` as the environment gave them."""
        for key, statistics in zip(self.keys, self.statistics, strict=True):
            statistics.update(observations if key is None else observations[key])

    def forward(self, observations: Any) -> Any:
        """Observations `(B, ...)` as the networks see them."""
        if self.keys == [None]:
            return self.statistics[0](observations)
        normalised = {
            key: statistics(observations[key]) for key, statistics in zip(self.keys, self.statistics, strict=True)
        }
        return {**observations, **normalised}


class NormalizedFeatures(BaseFeaturesExtractor):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """A features extractor that sees normalised observations."""

    def __init__(
        self, space: spaces.Space[Any], normalizer: ObservationNormalizer, extractor: BaseFeaturesExtractor
    ) -> None:
        super().__init__(space, extractor.features_dim)
        self.normalizer, self.extractor = normalizer, extractor

    def forward(self, observations: Any) -> Tensor:
        """Features `(B, D)`."""
        features: Tensor = self.extractor(self.normalizer(observations))
        return features


def normalize_inside(policy: Any, statistics: RunningMoments | None = None) -> None:
    """Put one normaliser before every features extractor of a new policy, and call it `policy.normalizer`.

    Args:
        policy: of SB3.
        statistics: of a `TensorVecNormalize` that has handed them over; None: new ones.

    Raises:
        TypeError: nothing in the observation space is a `Box` of floats, or the policy has no features extractor.
    """
    space = policy.observation_space
    normalizer = ObservationNormalizer(space)
    if statistics is not None:
        normalizer.statistics[0] = statistics
    normalizer.to(policy.device)
    wrapped: dict[BaseFeaturesExtractor, NormalizedFeatures] = {}  # what two networks share stays shared
    for model in [module for module in policy.modules() if isinstance(module, BaseModel)]:
        for name in EXTRACTORS:
            extractor = model._modules.get(name)  # named_children leaves out the second name of a shared one
            if extractor is not None:
                if extractor not in wrapped:
                    wrapped[extractor] = NormalizedFeatures(space, normalizer, extractor)
                setattr(model, name, wrapped[extractor])
    if not wrapped:
        raise TypeError(f"normalize_observations=True: {type(policy).__name__} has no features extractor of SB3.")
    policy.normalizer = normalizer
