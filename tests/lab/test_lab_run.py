"""A run cell by cell, the same run in the three modes, and what its numbers are held against: the collector's."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sekai import RowKind
from sekai.collect import Collector
from sekai.lab import LETTERS, Comparison, Player, Run, Setup, to_csv, to_script
from sekai.lab.setups import MODES, MOST_SLOTS
from sekai.spaces import Box, Discrete

#: slot 0 ends after 2 steps, slot 1 after 3, there with both flags
SMALL = Setup(slots=2, lengths=(2, 3), endings=("terminated", "both"), action=4)


def played(setup: Setup, calls: int) -> Run:
    run = Run(setup)
    run.step(calls)
    run.close()
    return run


@pytest.mark.parametrize(
    ("mode", "letters", "valid", "reset_only", "frozen"),
    [
        ("same_step", ["SS", "TS", "SB", "TS", "SS"], 10, 0, 0),
        ("next_step", ["SS", "TS", "RB", "SR", "TS"], 8, 2, 0),
        ("disabled", ["SS", "TS", "FB", "SS", "TS"], 9, 0, 1),  # both are reset once both have ended
    ],
)
def test_five_calls_of_two_slots_in_each_mode(
    mode: str, letters: list[str], valid: int, reset_only: int, frozen: int
) -> None:
    run = played(replace(SMALL, autoreset=mode), 5)
    assert run.letters == letters
    counted = run.counters
    assert (counted.calls, counted.valid, counted.reset_only, counted.frozen) == (5, valid, reset_only, frozen)
    assert run.claim == 10  # 5 calls x 2 slots, whatever they were
    assert run.episodes == 3
    assert run.valid_counts.sum() == valid


@pytest.mark.parametrize("backend", ["sync", "async", "proc", "native"])
@pytest.mark.parametrize("mode", MODES)
def test_counters_and_kinds_are_those_of_a_collector_that_collects_all_at_once(backend: str, mode: str) -> None:
    setup = Setup(slots=3, backend=backend, autoreset=mode, seed=5)
    run = played(setup, 14)
    with setup.make() as vec:
        collector = Collector(vec, setup.player(vec), fragment_length=14, restart=setup.restart)
        collector.reset(seed=5)
        fragment = collector.collect()
    for name in ("calls", "rows", "valid", "reset_only", "frozen", "lost", "terminated", "truncated"):
        assert getattr(run.counters, name) == getattr(collector.counters, name), name
    np.testing.assert_array_equal(run.kind, fragment.kind)
    for name in ("trace", "cut", "episode_start", "episode_id", "step_index"):
        np.testing.assert_array_equal(getattr(run, name), getattr(fragment, name), err_msg=name)
    for time, slot in np.argwhere(fragment.valid).tolist():
        cell = run.cell(time, slot)
        assert cell.bootstrap == fragment.bootstrap[time, slot]
        assert cell.reward == fragment.rewards[time, slot]
        np.testing.assert_array_equal(cell.observation, fragment.observations[time, slot])
        np.testing.assert_array_equal(cell.next_observation, fragment.next_observations()[time, slot])


def test_an_ordinary_cell_holds_what_the_slot_saw_did_and_got() -> None:
    cell = played(SMALL, 1).cell(0, 1)
    assert (cell.call, cell.slot, cell.kind) == (1, 1, RowKind.STEP)
    assert cell.observation.tolist() == [1, 0, 0] and cell.next_observation.tolist() == [1, 0, 1]
    assert cell.reward == 14  # 10 * 1 + 4
    assert (cell.action, cell.info) == (4, {"t": 1})
    assert (cell.episode_id, cell.step_index) == (1, 0)  # episode 0 of slot 1, of 2 slots: 0 * 2 + 1
    assert (cell.valid, cell.bootstrap, cell.episode_start) == (True, True, True)
    assert (cell.trace, cell.cut) == (False, True)  # nothing has followed yet


@pytest.mark.parametrize("mode", MODES)
def test_an_end_leads_to_its_final_observation_in_every_mode(mode: str) -> None:
    cell = played(replace(SMALL, autoreset=mode), 5).cell(2, 1)
    assert cell.kind is RowKind.TERMINATED
    assert (cell.terminated, cell.truncated) == (True, True)
    assert cell.next_observation.tolist() == [1, 0, 3]  # and not (1, 1, 0), the first of the next episode
    assert (cell.bootstrap, cell.trace, cell.cut) == (False, False, False)


def test_a_reset_row_is_no_transition_and_has_no_episode() -> None:
    cell = played(replace(SMALL, autoreset="next_step"), 5).cell(2, 0)
    assert cell.kind is RowKind.RESET
    assert (cell.valid, cell.bootstrap, cell.trace, cell.cut) == (False, False, False, False)
    assert (cell.episode_id, cell.step_index) == (-1, -1)
    assert cell.reward == 0


def test_a_trace_goes_on_once_the_next_call_has_been_made() -> None:
    run = Run(SMALL)
    run.step()
    assert run.cell(0, 0).cut and not run.cell(0, 0).trace
    run.step()
    assert run.cell(0, 0).trace and not run.cell(0, 0).cut
    run.close()


def test_the_memory_halves_and_grows_by_one_and_begins_anew_with_each_episode_of_its_slot() -> None:
    run = played(replace(SMALL, autoreset="next_step"), 5)
    # slot 0: S T R S T; the reset row still has the memory of the episode that ended
    assert run.hidden[:, 0].tolist() == [0, 1, 1.5, 0, 1, 1.5]
    assert run.hidden[:, 1].tolist() == [0, 1, 1.5, 1.75, 0, 1]
    assert run.starts[:, 0].tolist() == [True, False, False, True, False, False]
    assert run.cell(2, 0).hidden == 1.5


@pytest.mark.parametrize("environment", ["counting", "CartPole-v1", "Trading-v0", "OptimalExecution-v0"])
def test_the_three_modes_have_the_same_transitions_in_other_rows(environment: str) -> None:
    comparison = Comparison(Setup(environment=environment, slots=3, backend="native"))
    comparison.advance(40)
    compared, different = comparison.agreement()
    counts = {mode: run.counters for mode, run in comparison.runs.items()}
    comparison.close()
    # both other modes against same_step, each slot as far as the shortest goes
    assert different == 0 and compared >= 2 * 3 * 25
    assert counts["same_step"].valid == 120
    assert counts["next_step"].valid == 120 - counts["next_step"].reset_only < 120
    # where all episodes are equally long, none waits for another
    assert counts["disabled"].valid == 120 - counts["disabled"].frozen


def test_transitions_that_differ_are_counted() -> None:
    comparison = Comparison(SMALL)
    comparison.advance(3)
    other = Comparison(replace(SMALL, action=5))
    other.advance(3)
    comparison.runs["disabled"] = other.runs["disabled"]
    # disabled has 2 and 3 transitions, next_step likewise: 5 pairs each, of which those of disabled differ
    assert comparison.agreement() == (10, 5)
    comparison.close()
    other.close()


def test_a_transition_is_found_again_in_each_mode() -> None:
    comparison = Comparison(SMALL)
    comparison.advance(5)
    # the first step of slot 0's second episode, number 1 * 2 + 0: rows of the tables above, counted from 0
    assert comparison.places(2, 0) == {"same_step": (2, 0), "next_step": (3, 0), "disabled": (3, 0)}
    # same_step alone has come to that episode's successor
    assert comparison.places(4, 0) == {"same_step": (4, 0)}
    assert comparison.places(-1, -1) == {}
    comparison.close()


def test_random_actions_depend_on_seed_slot_episode_and_step_alone() -> None:
    both, second, none = np.array([True, True]), np.array([False, True]), np.array([False, False])

    def acted(seed: int, *starts: np.ndarray) -> list[list[int]]:
        player = Player(Discrete(1000), seed=seed)
        return [player.act(None, np.zeros(2), each).actions.tolist() for each in starts]

    one = acted(3, both, none, none)
    assert len({action for row in one for action in row}) == 6
    other = acted(3, both, second, none)  # slot 1 is in its second episode from the second row on
    assert [row[0] for row in other] == [row[0] for row in one]
    assert {other[1][1], other[2][1]}.isdisjoint({one[0][1], one[1][1], one[2][1]})
    # and so is this one, after a longer first: the same actions, a row later
    assert [row[1] for row in acted(3, both, none, second, none)[2:]] == [other[1][1], other[2][1]]
    assert acted(4, both) != one[:1]


def test_a_constant_number_fills_a_box() -> None:
    player = Player(Box(-1.0, 1.0, (2,), np.float32), seed=0, action=0.5)
    assert player.act(None, np.zeros(2), np.ones(2, bool)).actions.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slots": 0}, "slots is 0; expected an int of at least 1."),
        ({"slots": MOST_SLOTS + 1}, "slots is 33; expected 1 to 32."),
        ({"backend": "ray"}, "backend is 'ray'; expected one of 'auto', 'sync', 'async', 'proc', 'native'."),
        ({"autoreset": "never"}, "autoreset is 'never'; expected one of 'same_step', 'next_step', 'disabled'."),
        ({"lengths": (3, 0)}, "length is 0; expected an int of at least 1."),
        ({"lengths": ()}, "lengths and endings need at least one entry each."),
        ({"endings": ("lost",)}, "ending is 'lost'; expected one of 'terminated', 'truncated', 'both'."),
        ({"environment": " "}, "environment is empty; expected 'counting' or an id such as 'CartPole-v1'."),
        ({"seed": -1}, "seed is -1; expected an int >= 0, None or a numpy.random.Generator."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_setup_that_means_nothing_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Setup(**wrong)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_an_action_that_the_environment_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^action is 10; expected one of Discrete\(10\)\.$"):
        Run(Setup(action=10))


def test_a_cell_that_was_not_played_is_refused() -> None:
    run = played(SMALL, 1)
    with pytest.raises(IndexError, match=r"There is no cell of call 2 and slot 0"):
        run.cell(1, 0)
    with pytest.raises(IndexError, match=r"There is no cell of call 0 and slot 0"):
        run.cell(-1, 0)


def test_the_table_holds_every_cell() -> None:
    run = played(replace(SMALL, autoreset="next_step"), 3)
    lines = list(csv.DictReader(io.StringIO(to_csv(run))))
    assert len(lines) == 6
    end = lines[3 - 1]  # call 2, slot 0
    assert (end["call"], end["slot"], end["kind"], end["reward"]) == ("2", "0", "TERMINATED", "24.0")  # 10 * 2 + 4
    assert json.loads(end["next_observation"]) == [0.0, 0.0, 2.0]
    assert json.loads(end["info"]) == {"t": 2}
    assert (end["bootstrap"], end["trace"], end["hidden"]) == ("False", "False", "1.0")


@pytest.mark.parametrize(
    ("mode", "backend", "told"),
    [
        ("next_step", "proc", ["valid 8", "reset_only 2", "frozen 0", "SS", "TS", "RT", "SR", "TS"]),
        ("disabled", "native", ["valid 9", "reset_only 0", "frozen 1", "SS", "TS", "FT", "SS", "TS"]),
    ],
    ids=["next_step", "disabled"],
)
def test_the_script_makes_the_same_calls(mode: str, backend: str, told: list[str], tmp_path: Path) -> None:
    run = played(replace(SMALL, autoreset=mode, backend=backend), 5)
    script = tmp_path / "run.py"
    script.write_text(to_script(run), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["calls 5", *told[:3], "episodes 3", "calls x slots would claim 10", *told[3:]]


def test_a_run_without_calls_has_no_script() -> None:
    run = Run(SMALL)
    run.close()
    with pytest.raises(ValueError, match="The run has no calls yet; step it first"):
        to_script(run)


def test_every_kind_has_a_letter_of_its_own() -> None:
    assert set(LETTERS) == set(RowKind)
    assert len({*LETTERS.values(), "B"}) == len(RowKind) + 1
