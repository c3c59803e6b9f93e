"""`sekai list`, `info`, `bench` and `check`; errors; what changes on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import sekai
from sekai.cli import main
from tests.arch.source import ROOT, SRC
from tests.cli import fakes

Run = Callable[..., tuple[int, str, str]]
RATE = re.compile(r"(\S+) mode=(\w+) num_envs=(\d+) steps=(\d+) seconds=([\d.]+) (\d+) steps/s\n")
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process: exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def on_a_terminal(*words: str) -> tuple[int, str]:
    """Run the command in a process whose stdout and stderr are a terminal: exit code, what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sekai", *words],
        stdout=theirs,
        stderr=theirs,
        env=ENVIRONMENT | {"COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal is gone when the process has ended
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_list_prints_one_line_per_id_and_marks_native_ones(run: Run) -> None:
    code, out, err = run("list")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0 and err == ""
    assert list(lines) == [entry.id for entry in sekai.all_specs()]
    assert "[native vec]" in lines["Trading-v0"] and "[native vec]" not in lines["CartPole-v1"]
    assert "max_episode_steps=500" in lines["CartPole-v1"]


def test_list_on_a_terminal_is_a_table_with_the_marks() -> None:
    code, shown = on_a_terminal("list")
    assert code == 0
    assert re.search(r"Trading-v0 +\[native vec\] +None +TradingEnv", shown)
    assert "entry_point=" not in shown


def test_info_prints_facts_with_the_id_first(run: Run) -> None:
    code, out, _ = run("info", fakes.ID)
    lines = out.splitlines()
    assert code == 0 and all(line.split()[0] == fakes.ID for line in lines)
    facts = dict(line.partition(" ")[2].split("=", 1) for line in lines)
    assert facts["observation_space"] == "Box(-1.0, 1.0, (1,), float32)"
    assert facts["action_space"] == "Discrete(5)"
    assert (facts["native"], facts["max_episode_steps"]) == ("no", "None")
    assert facts["kwargs.gain"] == "2.5 (registered)"


def test_info_knows_native_environments_and_gymnasiums_ids(run: Run) -> None:
    assert "native=sekai.envs.finance.trading:TradingVecEnv" in run("info", "Trading-v0")[1]
    assert "FrozenLake-v1 max_episode_steps=100" in run("info", "FrozenLake")[1]


def test_check_says_that_there_is_nothing_and_also_checks_the_native_version(run: Run) -> None:
    assert run("check", "CartPole-v1", "--steps", "40") == (0, "CartPole-v1 no problems in 40 steps\n", "")
    code, out, _ = run("check", "Trading-v0", "--steps", "40", "--determinism")
    assert (code, out.splitlines()) == (
        0,
        ["Trading-v0 no problems in 40 steps", "Trading-v0 no problems in 40 steps of 4 slots, native"],
    )


def test_check_fails_for_an_error_and_for_a_warning_only_when_strict(run: Run) -> None:
    code, out, _ = run("check", "cli/NaN-v0", "--steps", "4")
    assert code == 1
    assert out.startswith("cli/NaN-v0 error: reward at step 1: The reward is nan. Return one finite number")
    code, out, _ = run("check", "cli/Limited-v0", "--steps", "20")
    assert code == 0
    assert out.startswith("cli/Limited-v0 warning: time limit: All 4 episodes ended by terminated after 5 steps")
    assert run("check", "cli/Limited-v0", "--steps", "20", "--strict")[0] == 1
    assert run("check", "no/Such-v0")[0] == 2


def test_check_on_a_terminal_is_a_table() -> None:
    code, shown = on_a_terminal("-m", "tests.cli.fakes", "check", "cli/NaN-v0", "--steps", "20")
    assert code == 1
    assert "what was seen" in shown and "what to do" in shown and "The reward is nan." in shown
    assert "error:" not in shown


def test_bench_ends_with_one_line_that_can_be_parsed(run: Run) -> None:
    code, out, err = run("bench", "CartPole-v1", "--num-envs", "3", "--steps", "20")
    match = RATE.fullmatch(out)
    assert code == 0 and err == "" and match is not None
    id, mode, num_envs, steps, seconds, rate = match.groups()
    assert (id, mode, num_envs, steps) == ("CartPole-v1", "sync", "3", "20")
    # 3 sub-environments, 20 steps each; seconds are printed to 0.5 ms
    assert 60 / (float(seconds) + 0.0006) <= int(rate) + 1 and int(rate) <= 60 / max(1e-9, float(seconds) - 0.0006)


def test_bench_times_what_was_asked_after_a_tenth_of_warm_up(run: Run) -> None:
    fakes.Watched.actions.clear()
    code, out, _ = run("bench", fakes.ID, "--num-envs", "2", "--steps", "130")
    assert code == 0 and "steps=130 " in out
    assert len(fakes.Watched.actions) == 2 * (13 + 130)


def test_bench_is_seeded(run: Run) -> None:
    seen = []
    for seed in ("1", "1", "2"):
        fakes.Watched.actions.clear()
        fakes.Watched.seeds.clear()
        run("bench", fakes.ID, "--num-envs", "2", "--steps", "40", "--seed", seed)
        seen.append((list(fakes.Watched.actions), list(fakes.Watched.seeds)))
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[2][0] and seen[0][1] != seen[2][1]


@pytest.mark.parametrize(
    ("mode", "ran"), [("auto", "native"), ("native", "native"), ("sync", "sync"), ("async", "async")]
)
def test_bench_says_which_backend_ran(run: Run, mode: str, ran: str) -> None:
    assert f"Trading-v0 mode={ran} " in run("bench", "Trading-v0", "--mode", mode, "--steps", "3")[1]


def test_bench_in_processes_from_the_command_line() -> None:
    words = [
        "-m",
        "tests.cli.fakes",
        "bench",
        "cli/Watched-v0",
        "--mode",
        "proc",
        "--num-envs",
        "4",
        "--workers",
        "2",
        "--steps",
        "3",
    ]
    command = [sys.executable, "-m", "sekai", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert RATE.fullmatch(done.stdout) and "mode=proc num_envs=4" in done.stdout, done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_bench_on_a_terminal_shows_a_progress_bar_and_the_same_line() -> None:
    code, shown = on_a_terminal("bench", "CartPole-v1", "--num-envs", "2", "--steps", "50")
    assert code == 0 and "CartPole-v1 (2 sub-envs)" in shown
    assert RATE.fullmatch(shown.replace("\r", "").splitlines()[-1].strip() + "\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bench", "CartPol-v1"], "No environment 'CartPol-v1'"),
        (["info", "CartPol-v1"], "The closest names: CartPole-v1"),
        (["bench", "CartPole-v1", "--mode", "dask"], "'auto', 'native', 'sync', 'async', 'proc', 'ray'"),
        (["bench", "CartPole-v1", "--mode", "native"], "CartPole-v1 has no native vector environment"),
        (["bench", "CartPole-v1", "--num-envs", "0"], "--num-envs"),
        (["bench", "CartPole-v1", "--steps", "many"], "--steps"),
        (["bench", "CartPole-v1", "--workers", "2"], "--workers 2 needs --mode proc or --mode ray; the mode is auto"),
        (["bench"], "ID"),
        (["bench", "CartPole-v1", "--compare", "--mode", "sync"], "leave out --mode sync"),
        (["bench", "CartPol-v1", "--compare"], "No environment 'CartPol-v1'"),
        (
            ["bench", "CartPole-v1", "--compare", "--num-envs", "2", "--workers", "3"],
            "num_workers is 3; expected 1 to 2",
        ),
        (["bench", "CartPole-v1", "--step", "3"], "--step"),
        (["lst"], "lst"),
        (["-m", "no_such_module", "list"], "No module named 'no_such_module', needed for -m no_such_module"),
        (["demo", "--output", "/no/such/folder/demo.png"], "--output /no/such/folder/demo.png lies in"),
        (["demo", "--windows", "100000"], "100000 windows do not fit"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_two(run: Run, words: list[str], text: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert text in err


def test_a_failing_environment_is_one_line_with_its_kind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: object, action: object) -> None:
        raise RuntimeError("no price\nfor today")

    monkeypatch.setattr(fakes.Watched, "step", step)
    code, out, err = run("bench", fakes.ID)
    assert (code, out) == (2, "") and err == "Error: RuntimeError: no price for today\n"


def test_an_error_in_a_worker_process_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "bad_envs.py").write_text(
        "import sekai\nfrom tests.cli.fakes import Watched\n"
        "class Bad(Watched):\n    def step(self, action):\n        raise RuntimeError('out of data')\n"
        "sekai.register('bad/Bad-v0', Bad)\n"
    )
    words = ["-m", "bad_envs", "bench", "bad/Bad-v0", "--mode", "proc", "--num-envs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "sekai", *words],
        capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "Error: Sub-env 0 raised RuntimeError: out of data\n")


def test_a_missing_extra_comes_with_the_command_that_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    (tmp_path / "drawn_envs.py").write_text("import pygame\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = run("-m", "drawn_envs", "list")
    assert code == 2 and err.endswith("pip install 'sekai-rl[viz]'\n")


def test_a_module_that_fails_on_import_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "failing_envs.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    expected = "Error: -m failing_envs: importing it raised ZeroDivisionError: division by zero\n"
    assert run("-m", "failing_envs", "list") == (2, "", expected)


def test_a_module_in_the_current_folder_registers_first(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my_envs.py").write_text(
        "import sekai\nfrom tests.cli.fakes import Watched\nsekai.register('mine/Env-v0', Watched)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, _ = run("-m", "my_envs", "list")
    sekai.deregister("mine/Env-v0")
    assert code == 0 and "mine/Env-v0" in out


@pytest.mark.parametrize("words", [["-h"], ["--help"], []])
def test_help_names_the_commands(run: Run, words: list[str]) -> None:
    code, out, _ = run(*words)
    assert code == 0 and all(command in out for command in ("list", "info", "bench", "check", "demo", "-m MODULE"))
    assert "--workers" in run("bench", "-h")[1]


def test_the_version_is_that_of_the_project(run: Run) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert run("--version") == (0, f"sekai {project['version']}\n", "")
    assert sekai.__version__ == project["version"]


def test_an_interrupt_ends_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: object, action: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fakes.Watched, "step", step)
    assert run("bench", fakes.ID) == (130, "", "")


def test_a_reader_that_has_gone_gets_no_traceback() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "sekai", "list"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_line_is_not_loaded_by_importing_it() -> None:
    code = "import sekai.cli, sys; print({'typer', 'rich', 'sekai.cli.app', 'sekai.finance'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "set()\n"
