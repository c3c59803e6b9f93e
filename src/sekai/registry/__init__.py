"""Environments by name: `register`, `make`, `make_vec`."""

from __future__ import annotations

from sekai.registry.making import make
from sekai.registry.specs import EnvSpec
from sekai.registry.store import all_specs, deregister, register, register_namespace, spec
from sekai.registry.vectors import make_vec

__all__ = ["EnvSpec", "all_specs", "deregister", "make", "make_vec", "register", "register_namespace", "spec"]
