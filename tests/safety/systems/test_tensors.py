"""Every system gives the same numbers for tensors as for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.safety.systems import BallSet, BoxSet, DoubleIntegrator, DubinsRadial, System
from sekai.safety.systems.named import SYSTEMS

torch = pytest.importorskip("torch")

ALL: list[System] = [
    *(build() for build in SYSTEMS.values()),
    DubinsRadial(),
    *(DoubleIntegrator(integrator=name, target="touch") for name in ("euler", "zoh", "semi-implicit")),
    DoubleIntegrator(target="rest", force_bound=0.3),
    DoubleIntegrator(drift_bound=0.3),
]


def agree(tensor: Any, array: Any) -> bool:
    return tensor.dtype == torch.float64 and np.allclose(tensor.numpy(), array, rtol=0, atol=1e-12)


@pytest.mark.parametrize("system", ALL, ids=str)
def test_tensors_give_the_numbers_of_arrays(system: System) -> None:
    rng = np.random.default_rng(0)
    uniform, control = rng.random((5, 20, system.state_size)), rng.normal(size=(5, 20, system.control.size))
    disturbance = None if system.disturbance is None else rng.normal(size=(5, 20, system.disturbance.size))
    state = system.start(uniform)
    twins = [None if given is None else torch.from_numpy(given) for given in (uniform, state, control, disturbance)]
    assert agree(system.start(twins[0]), state)
    after = system.step(state, control, disturbance)
    assert after.shape == state.shape
    assert agree(system.step(*twins[1:]), after)
    assert not np.array_equal(after, state)
    assert agree(system.g(twins[1]), system.g(state)) and agree(system.observe(twins[1]), system.observe(state))
    if system.provides_l:
        assert agree(system.l(twins[1]), system.l(state))


@pytest.mark.parametrize("system", ALL, ids=str)
def test_float32_stays_float32(system: System) -> None:
    state = system.start(torch.rand(3, system.state_size, generator=torch.Generator().manual_seed(0)))
    after = system.step(state, torch.zeros(3, system.control.size))
    assert after.dtype == system.g(after).dtype == system.observe(after).dtype == torch.float32


@pytest.mark.parametrize("bounded", [BoxSet((-1.0, 0.0), (1.0, 4.0)), *(BallSet(0.7, size) for size in (1, 2, 3))])
def test_sets_project_and_sample_tensors(bounded: BoxSet | BallSet) -> None:
    rng = np.random.default_rng(1)
    points, uniform = rng.normal(size=(50, bounded.size)), rng.random((50, bounded.size))
    assert agree(bounded.project(torch.from_numpy(points)), bounded.project(points))
    assert agree(bounded.sample(torch.from_numpy(uniform)), bounded.sample(uniform))
