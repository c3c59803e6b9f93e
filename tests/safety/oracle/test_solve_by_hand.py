"""Value iteration on problems small enough to be done by hand, and on tables of a few nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from sekai.safety.oracle import Axis, Grid, after_step, solve
from sekai.safety.oracle import iteration as iteration_module
from sekai.safety.oracle.kernels import sweep
from sekai.safety.systems import BoxSet, DoubleIntegrator, System
from sekai.safety.systems.base import as_state

# nodes 0 ... 4 of the first axis; the second says nothing
LINE = Grid((Axis(0.0, 4.0, 5), Axis(0.0, 1.0, 2)))


@dataclass(frozen=True, kw_only=True)
class Walk(System):
    """x moves by u + d along a table of margins; x beyond the ends of the grid counts as the end."""

    margins: tuple[float, ...]
    targets: tuple[float, ...] = ()
    push: float = 0.0
    product: bool = False  # move by u d instead

    state_names: ClassVar[tuple[str, ...]] = ("x", "y")
    observation_size: ClassVar[int] = 2
    reset_low = (0.0, 0.0)
    reset_high = (4.0, 1.0)
    g_max = 1.0

    @property
    def provides_l(self) -> bool:
        return bool(self.targets)

    @property
    def control(self) -> BoxSet:
        return BoxSet((-1.0,), (1.0,))

    @property
    def disturbance(self) -> BoxSet | None:
        return BoxSet((-self.push,), (self.push,)) if self.push else None

    def _advance(self, state: Any, control: Any, disturbance: Any) -> Any:
        move = control[..., 0]
        if disturbance is not None:
            move = move * disturbance[..., 0] if self.product else move + disturbance[..., 0]
        return as_state(state[..., 0] + move, state[..., 1])

    def g(self, state: Any) -> Any:
        return np.interp(state[..., 0], range(5), self.margins)

    def l(self, state: Any) -> Any:  # noqa: E743
        return np.interp(state[..., 0], range(5), self.targets)


def line(values: Any) -> list[float]:
    """The values along the line, which do not depend on the second axis."""
    assert np.array_equal(values.values[:, 0], values.values[:, 1])
    return [round(value, 6) for value in values.values[:, 0].tolist()]


RIGHT = np.array([[1.0]])


def test_avoid_by_hand() -> None:
    system = Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4))
    # only to the right: the smallest margin from here on, -0.4 from everywhere
    assert line(solve(system, LINE, controls=RIGHT)) == [-0.4] * 5
    # with a choice, standing still included, every node keeps its own margin
    assert line(solve(system, LINE)) == [0.5, 1.0, 0.2, 0.8, -0.4]


def test_discounted_avoid_by_hand() -> None:
    system = Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4))
    # V4 = -.4; V3 = .5 * .8 + .5 * min(.8, -.4) = .2; V2 = .1 + .5 * min(.2, .2) = .2; V1 = .5 + .5 * .2 = .6;
    # V0 = .25 + .5 * min(.5, .6) = .5
    assert line(solve(system, LINE, controls=RIGHT, gamma=0.5)) == [0.5, 0.6, 0.2, 0.2, -0.4]


def test_the_end_at_a_failure_is_worth_its_margin_or_the_floor() -> None:
    system = Walk(margins=(0.5, 1.0, -0.1, 0.8, -0.4))
    ended = solve(system, LINE, controls=RIGHT, end_criterion="failure")
    assert line(ended) == [-0.1, -0.1, -0.1, -0.4, -0.4]  # what comes after node 2 is not seen any more
    floor = solve(system, LINE, controls=RIGHT, end_criterion="failure", failure_value=-0.3)
    assert line(floor) == [-0.3, -0.3, -0.3, -0.4, -0.4]  # at most -0.3: node 4 is deeper already


def test_reach_avoid_by_hand() -> None:
    system = Walk(margins=(0.9, 0.3, 0.6, 0.5, -0.4), targets=(-1.0, -0.8, -0.5, 0.7, 0.9))
    # node 3 is inside the target: min(g, l) = .5; the others may not do better than the margins on the way; from node 4
    # nothing helps, g = -.4
    assert line(solve(system, LINE)) == [0.3, 0.3, 0.5, 0.5, -0.4]
    # as an avoid problem the same system asks for nothing more than its margins
    assert line(solve(system, LINE, mode="avoid")) == [0.9, 0.3, 0.6, 0.5, -0.4]


def test_discounted_reach_avoid_by_hand() -> None:
    system = Walk(margins=(1.0, 1.0, 1.0, 1.0, 1.0), targets=(-1.0, -1.0, -1.0, -1.0, 1.0))
    # V4 = 1; V3 = .5 * min(-1, 1) + .5 * max(-1, 1) = 0; V2 = -.5 + .5 * 0 = -.5; V1 = -.75; V0 = -.875
    assert line(solve(system, LINE, controls=RIGHT, gamma=0.5)) == [-0.875, -0.75, -0.5, 0.0, 1.0]


def test_a_target_that_is_out_of_reach_is_worth_nothing() -> None:
    """The anchor of reach-avoid is min(l, g): with g as anchor, as in avoid, waiting here would be worth g = 1."""
    system = Walk(margins=(1.0,) * 5, targets=(-1.0,) * 5)
    assert line(solve(system, LINE, gamma=0.9)) == [-1.0] * 5


def test_success_ends_the_episode_only_if_asked_to() -> None:
    system = Walk(margins=(1.0,) * 5, targets=(-1.0, -1.0, 0.1, 0.5, 1.0))
    assert line(solve(system, LINE)) == [1.0] * 5  # on to the middle of the target
    assert line(solve(system, LINE, end_criterion="reach-avoid")) == [0.1, 0.1, 0.1, 0.5, 1.0]  # it ends at node 2


def test_the_disturbance_answers_the_control() -> None:
    """max over u of min over d: with the order exchanged the control would answer, and stay where it is best."""
    system = Walk(margins=(-1.0, 0.0, 1.0, 0.0, -1.0), push=1.0, product=True)
    # u d with u = -1, 1: the disturbance picks the direction, whatever u is; only u = 0 stands still
    both = np.array([[-1.0], [1.0]])
    assert line(solve(system, LINE, controls=both, disturbances=both)) == [-1.0] * 5
    assert line(solve(system, LINE)) == [-1.0, 0.0, 1.0, 0.0, -1.0]
    # the negative control: from node 1 the exchanged order, min over d of max over u, would reach the 1 of node 2
    one_step = np.array([[system.g(system.step(np.array([1.0, 0.0]), u, d)) for u in both] for d in both])
    assert one_step.max(1).min() == 1.0 and one_step.min(0).max() == -1.0


def test_the_shift_by_one_step_leaves_the_margin_of_the_state_out() -> None:
    system = Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4))
    value = solve(system, LINE)
    shifted = value.after_step(system)
    # the best neighbour, or the node itself: max(.5, 1), 1, max(1, .8), .8, and .8 from the failed node 4
    assert shifted(LINE.states[:, 0]).tolist() == [1.0, 1.0, 1.0, 0.8, 0.8]
    pushed = Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4), push=1.0)
    # u + d from node 3: -1 leads to 1, 2, 3: .2; 0 to 2, 3, 4: -.4; 1 to -.4
    best = after_step(pushed.g, pushed, controls=np.array([[-1.0], [0.0], [1.0]]))
    assert best(np.array([3.0, 0.0])) == pytest.approx(0.2)


def test_values_between_nodes_are_interpolated_and_outside_as_at_the_edge() -> None:
    value = solve(Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4)), LINE)
    states = np.array([[0.5, 0.3], [3.25, 1.0], [9.0, 0.5], [-2.0, 0.0]])
    assert value(states) == pytest.approx([0.75, 0.5, -0.4, 0.5])  # .8 - .25 * 1.2
    torch = pytest.importorskip("torch")
    tensor = value(torch.from_numpy(states).float())
    assert tensor.dtype == torch.float32 and tensor.numpy() == pytest.approx([0.75, 0.5, -0.4, 0.5])


def test_areas_count_half_a_cell_at_the_edge() -> None:
    value = solve(Walk(margins=(0.5, 1.0, 0.2, 0.8, -0.4)), LINE)
    assert value.safe[:, 0].tolist() == [True, True, True, True, False]
    assert value.area == 3.5  # nodes 1, 2, 3 stand for 1 along x, node 0 for 0.5, and the line is 1 wide
    assert LINE.cells.sum() == 4.0


def test_angles_go_around() -> None:
    axis = Axis(-np.pi, np.pi, 5, periodic=True)
    assert axis.place(np.array([-np.pi, 0.0, np.pi, 1.5 * np.pi, -1.25 * np.pi])) == pytest.approx([0, 2, 0, 1, 3.5])


def test_machine_code_gives_what_the_python_function_gives() -> None:
    rng = np.random.default_rng(0)
    for shape, size in (((6, 7), 2), ((3, 4, 5), 3)):
        grid = Grid(tuple(Axis(0.0, 1.0, count) for count in shape))
        nodes = grid.states.reshape(-1, size)
        corner, fractions = grid.locate(rng.random((len(nodes), 3, 2, size)))
        corner[rng.random(corner.shape) < 0.1] = -1
        g, target = rng.normal(size=(2, len(nodes)))
        for falling, low in ((True, np.full_like(g, -np.inf)), (False, target)):
            anchor = np.minimum(g, low) if not falling else g
            results = []
            for run in (sweep, sweep.compiled):
                values, first, restless = anchor.copy(), np.zeros(len(g), np.int64), np.zeros(len(g), bool)
                arguments = (values, anchor, g, low, 0.9, g < -1, corner, fractions, np.array(grid.strides), falling)
                changes = [run(*arguments, first, np.arange(len(g)), 1e-3, restless, k == 1) for k in range(3)]
                results.append((values.tolist(), first.tolist(), restless.tolist(), changes))
            assert results[0] == results[1]
            assert results[0][0] != anchor.tolist()


def test_passes_between_change_nothing_but_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid.around(DoubleIntegrator(), 51)
    for system in (DoubleIntegrator(force_bound=0.25, dt=0.1), DoubleIntegrator(target="touch")):
        monkeypatch.setattr(iteration_module, "PASSES_BETWEEN", 8)
        quick = solve(system, grid, tolerance=1e-9, gamma=0.99)
        monkeypatch.setattr(iteration_module, "PASSES_BETWEEN", 0)
        slow = solve(system, grid, tolerance=1e-9, gamma=0.99)
        assert slow.sweeps > quick.sweeps and np.abs(slow.values - quick.values).max() < 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "reach"}, "mode is 'reach'; expected one of 'avoid', 'reach-avoid'."),
        ({"mode": "reach-avoid"}, "has no target: use 'avoid'."),
        ({"gamma": 0.0}, "gamma is 0.0; expected a number in (0, 1]."),
        ({"gamma": 1.1}, "gamma is 1.1; expected a number in (0, 1]."),
        ({"end_criterion": "reach-avoid"}, "end_criterion is 'reach-avoid'; expected one of 'timeout', 'failure'."),
        ({"failure_value": -1.0}, "expected a number below 0, and an episode that ends at failures."),
        ({"failure_value": 0.1, "end_criterion": "failure"}, "and an episode that ends at failures."),
        ({"ceiling": 0.1, "gamma": 0.9}, "ceiling is 0.1 with gamma 0.9; expected a number above 0, and gamma 1."),
        ({"disturbances": RIGHT}, "has none: leave them out."),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        solve(Walk(margins=(1.0,) * 5), LINE, **arguments)
    assert str(caught.value).endswith(message)


def test_the_last_pass_over_all_nodes_changed_none_by_more_than_the_tolerance() -> None:
    system, grid = DoubleIntegrator(), Grid.around(DoubleIntegrator(), 51)
    loose, tight = (solve(system, grid, tolerance=tolerance) for tolerance in (1e-2, 1e-8))
    assert tight.change <= 1e-8 < loose.change <= 1e-2 and loose.sweeps < tight.sweeps


def test_giving_up_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="After 2 sweeps values still change by"):
        solve(DoubleIntegrator(), Grid.around(DoubleIntegrator(), 51), max_sweeps=2)


def test_grids_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"The grid has 1 axes; expected 2 or 3."):
        Grid((Axis(0.0, 1.0, 3),))
    with pytest.raises(ValueError, match=r"The axis goes from 1.0 to 0.0; expected finite numbers, low < high."):
        Axis(1.0, 0.0, 3)
    with pytest.raises(ValueError, match=r"count is 1; expected an int of at least 2."):
        Axis(0.0, 1.0, 1)
