"""The infos of the finance environments: what vector environments may rely on."""

from __future__ import annotations

from copy import deepcopy

import pytest

import sekai
from sekai.vector.infos import same_value

identity = id  # the tests have an argument of that name


@pytest.mark.parametrize("id", ["Trading-v0", "Portfolio-v0", "MarketMaking-v0", "OptimalExecution-v0"])
def test_every_info_is_a_dict_of_its_own_in_which_nothing_changes(id: str) -> None:
    """What `fresh_infos` promises, and vector environments rely on."""
    env = sekai.make(id, **({"episode_length": 20} if id in ("Trading-v0", "Portfolio-v0") else {"n_steps": 20}))
    env.action_space.seed(0)
    assert vars(type(env))["fresh_infos"]
    seen = [env.reset(seed=0).info]
    copies = [deepcopy(seen[0])]
    for _ in range(60):
        result = env.step(env.action_space.sample())
        seen.append(result.info)
        if result.done:
            seen.append(env.reset().info)
        copies += deepcopy(seen[len(copies) :])
    assert len({*map(identity, seen)}) == len(seen)
    for info, copy in zip(seen, copies, strict=True):
        assert same_value(info, copy)
