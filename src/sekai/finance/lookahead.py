"""A probe for look-ahead: what an environment returns at a row must not depend on later rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.core.env import find_attr
from sekai.finance.data import MarketData
from sekai.finance.validation import PRICE_FIELDS
from sekai.spaces.checks import whole_number

#: observation, reward, terminated, truncated, info, mask
Shown = dict[str, Any]


def assert_no_lookahead(
    env_factory: Callable[[MarketData], gymnasium.Env[Any, Any]],
    data: MarketData | None = None,
    *,
    steps: int = 40,
    seed: int = 0,
) -> None:
    """Raise unless an environment keeps the future to itself.

    One episode is recorded, with random actions. Then, for every row `t` in it, an environment is made of a history
    that is the same up to `t` and another one after it (prices, fields and exogenous series; what is not listed stays
    so), and takes the same actions: up to row `t` it has to return the same observations, rewards, flags, infos and
    masks of actions (method `action_mask`), to the bit.

    Args:
        env_factory: makes an environment of a history, wrapped as it will be used. Its infos have the key `timestamp`,
            the row or date of the state just observed.
        data: the history to probe with; None: 400 rows of one asset, made up.
        steps: steps of the episode that are looked at.
        seed: seed of the episode and of what replaces the future.

    Raises:
        AssertionError: something depends on the future; the message names it, with its row.
        ValueError: nothing that was returned depends on the history at all, so that nothing was probed.

    Example:
        >>> assert_no_lookahead(lambda data: sekai.make("Trading-v0", data=data, episode_length=60))
    """
    steps = whole_number("steps", steps, minimum=1)
    rng = np.random.default_rng(seed)
    data = _made_up(rng) if data is None else data
    actions: list[Any] = []
    shown = _run(env_factory(data), steps, seed, actions)
    reached = False
    for last, entry in enumerate(shown):
        row = _row(entry["info"], data)
        if row == len(data) - 1:
            continue
        other = _run(env_factory(_with_another_future(data, row, rng)), steps, seed, actions)
        for step in range(last + 1):
            place = _difference(shown[step], other[step], "") if step < len(other) else ("end", "reached", "earlier")
            if place is not None:
                name, expected, found = place
                raise AssertionError(
                    f"Look-ahead: {name} at row {_row(shown[step]['info'], data)}, step {step}, is {expected}, and "
                    f"{found} where all that comes after row {row} is replaced; expected the same, since nothing "
                    "shown at a row may depend on later ones."
                )
        reached = reached or _difference(shown[last + 1 :], other[last + 1 :], "") is not None
    if not reached:
        raise ValueError(
            "Nothing that the environment returned changed with the history; expected env_factory to make an "
            "environment of the history that it is given."
        )


def _run(env: gymnasium.Env[Any, Any], steps: int, seed: int, actions: list[Any]) -> list[Shown]:
    """What an environment shows after the reset and after each step; `actions` are taken, then drawn and added."""
    try:
        env.action_space.seed(seed)
        observation, info = env.reset(seed=seed)
        shown = [_shown(env, observation, 0.0, False, False, info)]
        for step in range(steps):
            if step == len(actions):
                mask = shown[-1]["mask"]
                actions.append(env.action_space.sample() if mask is None else env.action_space.sample(mask))
            result = env.step(actions[step])
            shown.append(_shown(env, *result))
            if result[2] or result[3]:
                break
        return shown
    finally:
        env.close()


def _shown(env: Any, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Shown:
    try:
        mask = find_attr(env, "action_mask")[1]()
    except AttributeError:
        mask = None
    return {
        "observation": _copied(observation),
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
        "info": _copied(dict(info)),
        "mask": _copied(mask),
    }


def _copied(value: Any) -> Any:
    """A copy, since an environment may write into its arrays later."""
    if isinstance(value, Mapping):
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(entry) for entry in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _difference(a: Any, b: Any, name: str) -> tuple[str, Any, Any] | None:
    """The first place in which two copies differ, with what stands there; None for no difference."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        pairs = [(a[key], b[key], f"{name}[{key!r}]" if name else str(key)) for key in a]
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = [(x, y, f"{name}[{k}]") for k, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        left, right = np.asarray(a), np.asarray(b)
        if left.shape != right.shape or left.dtype != right.dtype:
            return name, a, b
        # NaN is the only value that differs from itself
        unequal = (left != right) & ~((left != left) & (right != right))
        if not unequal.any():
            return None
        index = tuple(np.argwhere(unequal)[0].tolist())
        return name + "".join(f"[{k}]" for k in index), left[index], right[index]
    return next((found for x, y, part in pairs if (found := _difference(x, y, part)) is not None), None)


def _row(info: Mapping[str, Any], data: MarketData) -> int:
    if "timestamp" not in info:
        raise ValueError(f"The info has no 'timestamp', only {sorted(info)}; expected the row or date of the state.")
    when = info["timestamp"]
    return int(when) if isinstance(when, (int, np.integer)) else data.row_of(when)


def _with_another_future(data: MarketData, row: int, rng: np.random.Generator) -> MarketData:
    """The same history up to a row, and another one after it."""
    after = slice(row + 1, None)
    # prices of a bar move together, or its low would leave its high behind
    factor = np.exp(rng.normal(0.0, 0.5, data.prices[after].shape))

    def replaced(values: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
        changed = values.copy()
        changed[after] = by
        return changed

    return MarketData(
        replaced(data.prices, data.prices[after] * factor),
        data.timestamps,
        assets=data.assets,
        fields={
            name: replaced(
                values, values[after] * (factor if name in PRICE_FIELDS else rng.exponential(size=factor.shape))
            )
            for name, values in data.fields.items()
        },
        exogenous={
            name: replaced(values, values[after] + rng.normal(0.0, 1.0 + values.std(), len(values) - row - 1))
            for name, values in data.exogenous.items()
        },
    )


def _made_up(rng: np.random.Generator) -> MarketData:
    return MarketData(100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, 400))))
