"""`sekai bench --compare`: which backends run, how they are compared, and what is recommended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sekai.cli import compare, main
from sekai.cli.compare import Result, Side, recommendation
from tests.cli.fakes import ID
from tests.cli.test_commands import on_a_terminal

RECORD = re.compile(r"(\S+) mode=(\w+) (?:workers=(\d+) )?num_envs=(\d+) (\d+) steps/s ratio=([\d.]+)")
QUICK = ("--compare", "--num-envs", "4", "--workers", "2", "--steps", "3", "--rounds", "3")


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compare, "WARM_UP", 0.0)
    monkeypatch.chdir(tmp_path)  # where the picture goes


@pytest.mark.parametrize(
    ("id", "modes"),
    [
        ("CartPole-v1", ["sync", "proc"]),
        ("Trading-v0", ["sync", "native", "proc"]),
        ("cli/Waiting-v0", ["sync", "async", "proc"]),
    ],
)
def test_the_backends_that_fit_run_and_each_is_a_line(
    id: str, modes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("bench", id, *QUICK)) == 0
    out, err = capsys.readouterr()
    *records, advice = out.splitlines()
    found = [match.groups() for match in map(RECORD.fullmatch, records) if match]
    assert [mode for _, mode, *_ in found] == modes and len(found) == len(records) and err == ""
    assert {(id, num_envs) for id, _, _, num_envs, *_ in found} == {(id, "4")}
    assert [workers for _, mode, workers, *_ in found if mode == "proc"] == ["2"]
    assert found[0][-1] == "1.00" and all(int(rate) > 0 for *_, rate, _ in found)
    assert re.match(rf"{id} Take vectorization_mode='\w+'", advice)
    assert Path("bench.png").read_bytes()[1:4] == b"PNG"


def test_on_a_terminal_it_is_a_table_with_a_progress_bar() -> None:
    code, shown = on_a_terminal("-m", "tests.cli.fakes", "bench", ID, "--compare", "--num-envs", "2", "--rounds", "1")
    assert code == 0
    assert re.search(r"backend +env steps/s +times sync", shown) and "cli/Watched-v0 (2 sub-envs)" in shown
    assert "mode=" not in shown.partition("Take ")[0]


class Clocked(Side):
    """Says when it has its turn."""

    def __init__(self, mode: str, log: list[str], seconds: float) -> None:
        self.mode, self.workers, self.rates = mode, None, []
        self._log, self._seconds = log, seconds

    def warm_up(self) -> float:
        return self._seconds

    def turn(self, steps: int) -> None:
        self._log.append(f"{self.mode} {steps}")


def test_backends_take_turns_of_equal_time_or_of_the_steps_asked_for() -> None:
    log: list[str] = []
    sides = [Clocked("sync", log, 0.001), Clocked("proc", log, 0.004)]
    compare._measure(sides, None, 2, lambda amount: None)
    assert log == ["sync 200", "proc 50"] * 2  # 0.2 seconds each
    log.clear()
    compare._measure(sides, 7, 1, lambda amount: None)
    assert log == ["sync 7", "proc 7"]


def test_a_ratio_is_the_median_of_the_ratios_of_rounds() -> None:
    sync, proc = Clocked("sync", [], 0.0), Clocked("proc", [], 0.0)
    sync.rates, proc.rates = [100.0, 10.0, 50.0], [200.0, 40.0, 50.0]
    result = compare._result(proc, sync)  # ratios 2, 4 and 1; the ratio of the medians would be 50 / 50 = 1
    assert (result.rate, result.ratio) == (50.0, 2.0)


def results(**ratios: float) -> list[Result]:
    workers: dict[str, Any] = {"proc": 2}
    return [Result(mode, workers.get(mode), 1000.0 * ratio, ratio) for mode, ratio in ratios.items()]


@pytest.mark.parametrize(
    ("ratios", "texts"),
    [
        ({"sync": 1.0, "proc": 1.63}, ["Take vectorization_mode='proc' with vector_kwargs={'num_workers': 2}: 1.63 t"]),
        ({"sync": 1.0, "proc": 1.05}, ["Take vectorization_mode='sync': nothing else gains enough"]),
        (
            {"sync": 1.0, "proc": 0.4},
            ["Take vectorization_mode='sync'", "proc, 2 workers is slower than sync here (0.40"],
        ),
        (
            {"sync": 1.0, "native": 43.7, "proc": 0.6},
            ["mode='native': 44 times", "proc, 2 workers is slower than sync"],
        ),
        (
            {"sync": 1.0, "async": 0.8},
            ["Take vectorization_mode='sync'", "async is slower than sync here (0.80 times)."],
        ),
    ],
)
def test_the_recommendation_says_what_to_write_and_what_is_slower(ratios: dict[str, float], texts: list[str]) -> None:
    said = recommendation(results(**ratios))
    assert all(text in said for text in texts)
    assert ("slower" in said) == (min(ratios.values()) < 1.0)


def test_the_picture_goes_where_it_is_asked_for_or_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("bench", "CartPole-v1", *QUICK, "--output", "bars.svg")) == 0
    text = Path("bars.svg").read_text()
    assert "<svg" in text and not Path("bench.png").exists()
    assert main(("bench", "CartPole-v1", *QUICK, "--output", "bars.txt")) != 0
    assert "--output bars.txt ends in '.txt'" in capsys.readouterr().err
    assert main(("bench", "CartPole-v1", "--output", "bars.png")) != 0
    assert "--output bars.png is for --compare" in capsys.readouterr().err
    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    assert main(("bench", "CartPole-v1", *QUICK)) == 0
    assert [path.name for path in Path().iterdir()] == ["bars.svg"]
