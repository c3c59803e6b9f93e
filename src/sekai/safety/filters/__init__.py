"""Filters: what a task policy asks for is executed where that is safe, and something safe where it is not.

    asked ──> monitor: margin >= level? ──yes──> executed as it was asked
                         │ no
                         └──> intervention proposes ──> monitor again ──yes──> executed
                                                            │ no
                                                            └──> the fallback is executed

A filter is three parts, each of which can be changed for another:

    monitor        how safe it is to execute an action: a margin, at least the level where it is
    fallback       what is executed where nothing better is known: a policy that keeps safe
    intervention   what is tried before it: nothing, a way towards the fallback, the nearest safe action, a QP

Rows, `(N, ...)`, are what the parts read of N slots: states or observations, as the filter is given them. Actions are
`(N, U)`, within a bounded box; they are judged as the box stores them, so that what is executed is what was judged.
Margins are `(N,)`. What is promised is that of the monitor: a margin of a learned value is worth what its calibration
says, see `sekai.safety.certify`.
"""

from sekai.safety.filters.env import FilteredEnv
from sekai.safety.filters.fallbacks import BestOf
from sekai.safety.filters.interventions import AffineQp, Blend, Intervention, Project, Question, Replace
from sekai.safety.filters.learned import action_value_of, policy_of, value_of
from sekai.safety.filters.models import Imagined, Model, SystemModel, TwinModel
from sekai.safety.filters.monitors import ActionValue, AffineMonitor, Monitor, NextValue, StateValue
from sekai.safety.filters.qp import box_qp
from sekai.safety.filters.rollout import RolloutMonitor
from sekai.safety.filters.shield import Decision, Shield

__all__ = [
    "ActionValue",
    "AffineMonitor",
    "AffineQp",
    "BestOf",
    "Blend",
    "Decision",
    "FilteredEnv",
    "Imagined",
    "Intervention",
    "Model",
    "Monitor",
    "NextValue",
    "Project",
    "Question",
    "Replace",
    "RolloutMonitor",
    "Shield",
    "StateValue",
    "SystemModel",
    "TwinModel",
    "action_value_of",
    "box_qp",
    "policy_of",
    "value_of",
]
