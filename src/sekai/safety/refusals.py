"""`require_margins`: what a safety learner refuses before it learns from margins that are none."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.safety.backups import REACH_AVOID, check_mode
from sekai.safety.chain import changed_margins, declared, normalizing_layer
from sekai.spaces.boxes import boxes_of


def require_margins(env: Any, mode: str, *, learner: str = "A safety learner") -> None:
    """Refuse an environment on which a learner of this mode would learn something else than its margins.

    Looked at is the whole chain: wrappers and vector wrappers of sekai, gymnasium and Stable-Baselines3, adapters, and
    sub-environments, also in other processes. Nothing is stepped. A layer changes rewards if it is, or derives from,
    one that is known to; a wrapper of your own that does so without deriving from a `RewardWrapper` cannot be found. Of
    sub-environments in the processes of a `sekai.VecEnv` the first is looked at; those of gymnasium's `AsyncVectorEnv`
    show the names of their layers only. In both, what makes margins is recognised where it is a `MarginWrapper`.

    Args:
        env: an environment or a vector environment, of sekai, gymnasium or Stable-Baselines3.
        mode: `"avoid"` or `"reach-avoid"`.
        learner: whom the message speaks of.

    Raises:
        ValueError: another mode; a layer that scales, clips or otherwise changes the reward outside the layer that
            makes the margins (a `MarginWrapper`, one that declares `provides_l`, else the base environment); actions
            without finite bounds; a reach-avoid learner on an environment that declares `provides_l = False`.
    """
    check_mode(mode)
    for problem, fix in (*reward_problems(env), *action_problems(env)):
        raise ValueError(f"{learner} cannot use this environment: {problem} {fix}")
    if mode == REACH_AVOID:
        for slot, provides_l in declared(env, "provides_l"):
            if not provides_l:
                raise ValueError(
                    f"{learner} is a reach-avoid learner, and {_whose(slot)} declares provides_l = False: it has no "
                    "target margin l. Give it one (MarginWrapper: l=...), or use the avoid learner."
                )


def require_one_player(env: Any, *, learner: str = "A safety learner") -> None:
    """Refuse an environment of which an action holds a disturbance as well.

    Raises:
        ValueError: it declares `ctrl_action_dim`: a learner of one player would choose its own disturbances.
    """
    for slot, dim in declared(env, "ctrl_action_dim"):
        if dim is not None:
            raise ValueError(
                f"{learner} has one player, and {_whose(slot)} declares ctrl_action_dim = {dim}: the rest of an action "
                "is the disturbance's. Use a learner of two players (such as SafetyPPO2P), or another disturbance than "
                "'player'."
            )


def require_own_statistics(env: Any, *, normalizes: bool, replays: bool, learner: str = "A safety learner") -> None:
    """Refuse observations that are normalised where the statistics cannot be trusted afterwards.

    Args:
        env: as for `require_margins`.
        normalizes: whether the learner has `normalize_observations=True`.
        replays: whether the learner stores observations and learns from them later.
        learner: whom the message speaks of.

    Raises:
        ValueError: observations would be normalised twice; or by a `TensorVecNormalize` below other layers, whose
            statistics no saved model would have; or stored as they were normalised at the time. Stable-Baselines3's
            `VecNormalize` gives raw ones to be stored, and a layer that is known to stand still always scales alike.

    The outermost `TensorVecNormalize` is not among them: a learner takes it over.
    """
    layer = normalizing_layer(env)
    if layer is None:
        return
    if normalizes:
        problem = f"normalize_observations is True, and {layer.name} normalises its observations as well."
        fix = "Leave one of them out."
    elif "TensorVecNormalize" in layer.bases:
        problem = f"the statistics of {layer.name} would not be in the saved model."
        fix = "Let it be the outermost layer, whose statistics the learner takes into its policy."
    elif replays and layer.moves and "VecNormalize" not in layer.bases:
        problem = (
            f"observations would be replayed as {layer.name} normalised them, by statistics that have moved since."
        )
        fix = "Leave it out, and give the learner normalize_observations=True."
    else:
        return
    raise ValueError(f"{learner} cannot use this environment: {problem} {fix}")


def reward_problems(env: Any) -> list[tuple[str, str]]:
    """What is wrong with the layers of `env`, and what to do about it; at most one."""
    found = changed_margins(env)
    if found is None:
        return []
    slot, name = found
    where = "" if slot is None else f" of sub-env {slot}"
    fix = "Use norm_reward=False" if name == "VecNormalize" else "Leave it out, or put it inside of MarginWrapper"
    return [
        (
            f"its reward is the safety margin g, and {name}{where} changes it: the set g >= 0, or the scale of g, "
            "would be another.",
            f"{fix}; observations may be normalised.",
        )
    ]


def action_problems(env: Any) -> list[tuple[str, str]]:
    """Whether actions have no finite bounds, and what to do about it; at most one."""
    space = env.single_action_space if isinstance(env, gymnasium.vector.VectorEnv) else env.action_space
    if all(box.is_bounded("both") for _, box in boxes_of(space)):
        return []
    return [
        (
            f"its action space is {space}, without finite bounds, and what a policy may do decides what is safe.",
            "Bound it in the environment, or give to_sb3(vec, action_bounds=(low, high)).",
        )
    ]


def _whose(slot: int | None) -> str:
    return "the environment" if slot is None else f"sub-env {slot}"
