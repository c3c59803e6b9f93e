"""Boxes and balls: projection, even spread, extremes."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.safety.systems import BallSet, BoxSet

BOX = BoxSet((-1.0, 0.0), (1.0, 4.0))


def test_a_box_projects_each_dimension_by_itself() -> None:
    points = np.array([[0.5, 2.0], [-3.0, 5.0]])
    assert BOX.project(points).tolist() == [[0.5, 2.0], [-1.0, 4.0]]
    assert points.tolist() == [[0.5, 2.0], [-3.0, 5.0]]


def test_a_ball_shortens_what_is_too_long_and_leaves_the_rest() -> None:
    ball = BallSet(2.0, 2)
    # (6, 8) has length 10, so it is scaled by 2 / 10
    assert ball.project(np.array([[6.0, 8.0], [0.6, 0.8], [0.0, 0.0]])) == pytest.approx(
        np.array([[1.2, 1.6], [0.6, 0.8], [0.0, 0.0]])
    )


def test_corners_and_grids() -> None:
    assert BOX.extremes().tolist() == [[-1, 0], [-1, 4], [1, 0], [1, 4]]
    assert BOX.points().tolist() == [[x, y] for x in (-1, 0, 1) for y in (0, 2, 4)]
    assert BoxSet((-1.0,), (1.0,)).points(5)[:, 0].tolist() == [-1, -0.5, 0, 0.5, 1]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_extremes_of_a_ball_lie_on_its_surface(size: int) -> None:
    extremes = BallSet(0.5, size).extremes()
    assert extremes.shape == (3**size - 1, size)
    assert np.linalg.norm(extremes, axis=1) == pytest.approx(0.5)
    assert (BallSet(0.5, size).points()[-1] == 0).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_samples_of_a_ball_are_spread_evenly(size: int) -> None:
    points = BallSet(2.0, size).sample(np.random.default_rng(0).random((20_000, size)))
    lengths = np.linalg.norm(points, axis=1)
    assert lengths.max() <= 2.0
    # half of the ball's volume lies within 2 * 0.5 ** (1 / size); a sample of the surface, or of the radius, does not
    assert np.mean(lengths <= 2.0 * 0.5 ** (1 / size)) == pytest.approx(0.5, abs=0.015)
    assert np.abs(points.mean(0)).max() < 0.05


def test_samples_of_a_box_are_spread_evenly() -> None:
    assert BOX.sample(np.array([[0.0, 0.0], [0.5, 0.25]])).tolist() == [[-1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BoxSet((1.0,), (-1.0,)), r"bounds \(1.0,\) and \(-1.0,\); expected finite ones, low <= high"),
        (lambda: BoxSet((-np.inf,), (1.0,)), "expected finite ones"),
        (lambda: BallSet(1.0, 4), "radius 1.0 and 4 dimensions; expected a finite radius"),
        (lambda: BallSet(-1.0, 2), "radius -1.0 and 2 dimensions"),
    ],
)
def test_unbounded_and_empty_sets_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]  # a lambda
