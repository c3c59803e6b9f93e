"""The contract between an environment and a safety learner: which number stands where, with which sign, of which time.

Time: all margins that come with step t are of the state AFTER it, and so are the flags. With `s_t` the state in which
action `a_t` was chosen:

    reset -> s_0        step(a_0) -> s_1, g(s_1), l(s_1)        step(a_1) -> s_2, g(s_2), l(s_2)   ...

So Q(s_t, a_t) is a value of s_{t+1} with its own margin, V(s_t) leaves g(s_t) out, and the margin of a first state is
never seen: nothing is read from the info of a reset.

    channel  sign                          one environment    vector environment    on a device (`TensorVecEnv`)
    g        g >= 0 outside the failure    reward, float      rewards (N,)          2nd of `step_tensor`, (N,)
             set, g < 0 inside
    l        l >= 0 inside the target      info["l_x"]        infos[i]["l_x"]       5th, (N,); None in avoid
    end      terminated where g < 0        terminated         terminated (N,)       dones and not timeouts, (N,)
    timeout  truncated, not terminated     truncated          truncated (N,)        timeouts (N,)
    action   as executed, within the box   info["executed_     infos[i]["executed_   7th, (N, A); None where it is
             and in its units; optional    action"], (A,)       action"], (A,)        the one that was given

- Margins are finite numbers in units of the task, best distances that change continuously. Nothing scales, clips or
  normalises them on their way; observations may be normalised.
- g < 0 terminates: what is seen after a failure would leak into values. In a reach-avoid environment reaching the
  target, l >= 0, may terminate too; every other end is a timeout, which ends the backup and is no failure.
- l is of reach-avoid environments alone, and of every step there; an environment that has none is an avoid environment,
  which is not the same as l = 0.

What an environment may declare, as attributes that any layer can have:

    provides_l         bool: whether l is given
    dt                 seconds of a step
    failure_horizon_s  seconds from a doomed state to failure at most
    g_range            (smallest, largest) g
    ctrl_action_dim    of an action of two players, how many numbers are the control's, see `sekai.safety.games`
    disturbance_set    the `BoxSet` or `BallSet` that the others are within; by default all of their box

`check_safety_env` steps an environment and says what is wrong, `require_margins` refuses before anything is stepped,
and `MarginWrapper` makes a contract environment from any other.
"""

from __future__ import annotations

from sekai.safety.chain import declared
from sekai.safety.checking import check_safety_env
from sekai.safety.margins import TARGET_KEY, MarginState, MarginWrapper
from sekai.safety.refusals import require_margins

__all__ = ["TARGET_KEY", "MarginState", "MarginWrapper", "check_safety_env", "declared", "require_margins"]
