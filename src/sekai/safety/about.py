"""`About`: what a certificate is about, in words and numbers that outlive what they describe."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from sekai.safety.backups import AVOID, REACH_AVOID, Mode
from sekai.safety.chain import chains, declared
from sekai.safety.systems.base import System


class About(NamedTuple):
    """What was tried.

    Attributes:
        kind: what it is.
        name: short, for a title.
        described: a system as it prints, an environment by its layers, the outermost first.
        mode: what the promise is: to stay safe (avoid), or to reach the target before a failure (reach-avoid).
        disturbances: the set they are from, as it prints; None for none.
        dt: seconds of a step; None where that is not known.
        initial_states: `names`, `low` and `high` of the numbers of a state, None for an environment, and how states are
            `drawn`.
    """

    kind: Literal["system", "environment"]
    name: str
    described: str
    mode: Mode
    disturbances: str | None
    dt: float | None
    initial_states: dict[str, Any]


def about_system(system: System) -> About:
    """Of rollouts from states of a system."""
    low, high = ([float(number) for number in bounds] for bounds in (system.reset_low, system.reset_high))
    drawn = "as System.start draws them, those with g < 0 left out"
    return About(
        kind="system",
        name=repr(system),
        described=repr(system),
        mode=REACH_AVOID if system.provides_l else AVOID,
        disturbances=None if system.disturbance is None else repr(system.disturbance),
        dt=system.dt,
        initial_states={"names": list(system.state_names), "low": low, "high": high, "drawn": drawn},
    )


def about_env(env: Any, mode: Mode) -> About:
    """Of episodes of an environment, in which a promise of this mode is counted."""
    layers = [layer.name for layer in next(chains(env))[1]]
    layers += [repr(system) for _, system in declared(env, "system") if isinstance(system, System)][:1]
    seconds = [float(dt) for _, dt in declared(env, "dt") if dt is not None]
    drawn = "by reset() of the environment, with the options None"
    return About(
        kind="environment",
        name=layers[-1],
        described=" > ".join(layers),
        mode=mode,
        disturbances=None,
        dt=seconds[0] if seconds else None,
        initial_states={"names": None, "low": None, "high": None, "drawn": drawn},
    )
