"""How an action is divided, who plays whom, and how scores are kept; numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from gymnasium import spaces  # noqa: E402

from sekai.safety.envs import SafetyVecEnv  # noqa: E402
from sekai.safety.games.league import League, matches  # noqa: E402
from sekai.safety.games.players import Players, ctrl_action_dim_of  # noqa: E402
from sekai.safety.systems import BallSet, BoxSet, DoubleIntegrator  # noqa: E402


def box(low: list[float], high: list[float]) -> spaces.Box:
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


JOINT = box([-2.0, -0.5, -0.5], [4.0, 0.5, 0.5])


def test_the_first_numbers_are_the_control_and_the_others_the_disturbance() -> None:
    players = Players(JOINT, 1)
    assert (players.control.low.tolist(), players.control.high.tolist()) == ([-2.0], [4.0])
    assert players.bounded == BoxSet((-0.5, -0.5), (0.5, 0.5))
    # 0 + 0.5 * (1, -0.4) within the box
    assert players.disturb(torch.tensor([[1.0, -0.4]])).tolist() == [[0.5, pytest.approx(-0.2)]]


def test_what_is_chosen_of_a_ball_is_projected_into_it() -> None:
    players = Players(JOINT, 1, BallSet(0.5, 2))
    # (0.5, 0.5) is sqrt(0.5) long: at 0.5 it is (0.5 / sqrt(2), 0.5 / sqrt(2))
    assert players.disturb(torch.tensor([[1.0, 1.0]])).tolist() == [[pytest.approx(0.5 / math.sqrt(2))] * 2]
    assert players.disturb(torch.tensor([[0.3, 0.0]])).tolist() == [[pytest.approx(0.15), 0.0]]  # inside: as it was
    drawn = players.disturb(players.random(500))
    assert drawn.norm(dim=1).max() <= 0.5 + 1e-6 and drawn.norm(dim=1).max() > 0.45
    off_centre = Players(box([-1.0, 0.2], [1.0, 1.0]), 1)
    # the nearest to none of [0.2, 1.0] is 0.2, which is the choice -1
    assert off_centre.nothing(2).tolist() == [[pytest.approx(-1.0)]] * 2


@pytest.mark.parametrize(
    ("dim", "bounded", "message"),
    [
        (0, None, "ctrl_action_dim is 0 and the action space"),
        (3, None, "expected one of (U + D,) numbers with 0 < ctrl_action_dim = U."),
        (1, BoxSet((-0.5,), (0.5,)), "expected one within the numbers of the disturbance"),
        (1, BallSet(0.6, 2), "disturbance_set is BallSet(radius=0.6, size=2); expected one within"),
    ],
)
def test_parts_that_do_not_fit_are_refused(dim: int, bounded: object, message: str) -> None:
    with pytest.raises(ValueError) as found:
        Players(JOINT, dim, bounded)  # type: ignore[arg-type]  # on purpose
    assert message in str(found.value)


def test_an_environment_says_how_many_numbers_are_the_control() -> None:
    system = DoubleIntegrator(force_bound=0.5)
    assert ctrl_action_dim_of(SafetyVecEnv(2, system, disturbance="player"), None) == 1
    assert ctrl_action_dim_of(SafetyVecEnv(2, system), 2) == 2  # as it was given
    with pytest.raises(ValueError, match="needs to know which numbers of an action are the disturbance's"):
        ctrl_action_dim_of(SafetyVecEnv(2, system), None)


def test_every_slot_belongs_to_one_block_and_the_two_that_learn_have_the_rest() -> None:
    # 1 + 1 earlier selves, zero and random are 4 others: int(16 * 0.5 / 4) = 2 slots each, 16 - 4 * 2 = 8 are left
    pairs = matches(16, 1, 0.5)
    assert [(pair.name, pair.slots.start, pair.slots.stop) for pair in pairs] == [
        ("past_controller_0", 0, 2),
        ("current", 2, 10),
        ("past_disturbance_0", 10, 12),
        ("zero", 12, 14),
        ("random", 14, 16),
    ]
    assert [pair.name for pair in matches(3, 0, 0.0)] == ["current", "zero", "random"]  # always one slot each
    with pytest.raises(ValueError, match="There are 4 slots, and a league of league_size=1 plays in 5 blocks"):
        matches(4, 1, 0.5)


def scored() -> League:
    """A league of one earlier self each, of five slots, one for each match."""
    return League(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), 1, matches(5, 1, 0.0))


def test_scores_are_shares_of_the_games_that_ended() -> None:
    league = scored()
    league.count(torch.tensor([True, True, False, True, False]), torch.tensor([False, True, True, True, True]))
    league.count(torch.tensor([False, True, False, False, False]), torch.tensor([True, False, True, True, True]))
    # the current two: one game won and one lost; nothing of earlier disturbances and random ones has ended
    assert league.win_rates() == {"past_controller_0": 0.0, "current": 0.5, "zero": 1.0}


def test_players_are_kept_where_none_is_and_then_in_place_of_the_easiest_to_beat() -> None:
    league = League(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), 2, matches(7, 2, 0.0))
    player = torch.nn.Linear(1, 1)
    for steps in (100, 200):
        torch.nn.init.constant_(player.weight, steps)
        league.take(player, player, steps)
    assert league.born.tolist() == [[100, 200], [100, 200]]
    ended, won = torch.ones(7, dtype=torch.bool), torch.zeros(7, dtype=torch.bool)
    won[0] = True  # the first earlier controller wins, the second loses: that one goes
    won[3] = True  # the controller wins against the first earlier disturbance: that one goes
    league.count(ended, won)
    torch.nn.init.constant_(player.weight, 300)
    league.take(player, player, 300)
    assert league.born.tolist() == [[100, 300], [300, 200]]
    weights = [[float(net.weight) for net in nets] for nets in (league.controllers, league.disturbances)]
    assert weights == [[100.0, 300.0], [300.0, 200.0]]
    # 1 game each: those against players that are new count for nothing, the others for half
    assert league.games.tolist() == [0.5, 0.0, 0.5, 0.0, 0.5, 0.5, 0.5]
    torch.nn.init.constant_(player.weight, 400)
    assert float(league.controllers[1].weight) == 300.0  # a copy


def test_scores_and_earlier_selves_are_in_the_state_of_a_league() -> None:
    league, other = scored(), scored()
    league.take(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), 7)
    league.count(torch.ones(5, dtype=torch.bool), torch.ones(5, dtype=torch.bool))
    other.load_state_dict(league.state_dict())
    assert other.win_rates() == league.win_rates() and other.born.tolist() == [[7], [7]]


def test_an_earlier_self_that_has_not_played_is_not_the_easiest_to_beat() -> None:
    league = League(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), 2, matches(7, 2, 0.0))
    player = torch.nn.Linear(1, 1)
    for steps in (100, 200):
        league.take(player, player, steps)
    ended = torch.tensor([False, True, False, True, False, False, False])
    league.count(ended, torch.tensor([False, True, False, False, False, False, False]))
    # controller 1 has won its game, and disturbance 0 too: those of no game stay all the same
    league.take(player, player, 300)
    assert league.born.tolist() == [[100, 300], [300, 200]]
