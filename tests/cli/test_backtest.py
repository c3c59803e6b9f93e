"""The backtest: its policies, its numbers against NumPy, its histories and their errors, its picture."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.cli import backtest as module
from sekai.cli import main
from sekai.cli.app import POLICIES
from sekai.cli.backtest import HISTORIES, REPORTS, curves_of, play, read_history
from sekai.cli.baselines import BASELINES, Estimates, estimate, without_shorts
from sekai.cli.curves import curves_figure, limits
from sekai.cli.errors import BadValue
from sekai.finance import MarketData, VecRecordPerformance, policies
from sekai.registry import make_vec

PNG = b"\x89PNG\r\n\x1a\n"
IDS = list(BASELINES)


def dates(count: int) -> list[str]:
    return (np.datetime64("2020-01-01") + np.arange(count)).astype(str).tolist()


def write_csv(path: Path, *columns: tuple[str, list[Any]]) -> Path:
    names, values = zip(*columns, strict=True)
    rows = [",".join(map(str, row)) for row in zip(*values, strict=True)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    return path


def walk(count: int, seed: int = 0) -> list[float]:
    return np.exp(np.random.default_rng(seed).normal(0, 0.01, count).cumsum()).tolist()


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command with the picture in an empty folder; the code, and what it printed."""

    def call(*arguments: str, output: str = "picture.png") -> tuple[int, str, str]:
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        code = main(["backtest", *arguments, "--output", str(folder / output)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def values_of(out: str) -> dict[str, dict[str, str]]:
    rows = [line.split(" ") for line in out.splitlines()[:-1]]
    return {name: dict(cell.split("=") for cell in cells) for name, *cells in rows}


# ---- what it prints and saves ---------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS)
def test_every_policy_of_an_environment_is_a_row_the_one_asked_for_first(
    id: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    asked = list(BASELINES[id])[-1]
    code, out, err = run(id, "--policy", asked, "--episodes", "3")
    assert (code, err) == (0, "")
    rows = values_of(out)
    assert list(rows) == [asked, *(name for name in BASELINES[id] if name != asked)]
    assert all(list(row) == [title.lower() for title in REPORTS[id].columns] for row in rows.values())
    assert out.splitlines()[-1] == f"{tmp_path / 'out' / 'picture.png'} saved"
    assert (tmp_path / "out" / "picture.png").read_bytes().startswith(PNG)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["picture.png"]


def test_the_seed_decides_the_numbers(run: Callable[..., tuple[int, str, str]]) -> None:
    first, again, other = (
        run("MarketMaking-v0", "--policy", "glft", "--episodes", "4", "--seed", seed)[1] for seed in "551"
    )
    assert first == again
    assert first != other


def test_the_return_is_the_mean_over_the_windows(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    # 283 rows leave one window: decisions from row 30 on, 252 steps, the last price in row 282
    prices = walk(283)
    path = write_csv(tmp_path / "one.csv", ("date", dates(283)), ("close", prices))
    code, out, _ = run("Trading-v0", "--policy", "buy-and-hold", "--data", str(path), "--episodes", "5")
    assert code == 0
    row = values_of(out)["buy-and-hold"]
    assert row["return"] == f"{prices[282] / prices[30] / 1.001 - 1:+.1%}"  # the purchase costs a factor 1 / 1.001
    assert row["return"] != f"{prices[282] / prices[0] / 1.001 - 1:+.1%}"
    assert row["sd"] == "0.0%"
    assert values_of(out)["flat"]["return"] == "+0.0%"
    assert values_of(out)["flat"]["sharpe"] == "n/a"


def test_annual_return_and_sortino_are_the_means_over_the_windows(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    # 33 rows and two steps leave one window: decisions at rows 30 and 31, the last price in row 32
    path = write_csv(tmp_path / "three.csv", ("date", dates(33)), ("close", [100.0] * 31 + [99.0, 101.97]))
    code, out, _ = run(
        "Trading-v0", "--policy", "buy-and-hold", "--data", str(path), "--episode-length", "2", "--episodes", "3"
    )
    assert code == 0
    row = values_of(out)["buy-and-hold"]
    first, second = 0.99 / 1.001 - 1, 101.97 / 99 - 1  # -0.01099, with the purchase, and 0.03
    assert row["annual"] == f"{((1 + first) * (1 + second)) ** 126 - 1:+.1%}"  # two of 252 periods
    assert row["annual"] != row["return"]
    # the mean of squares below 0 goes over both returns
    assert row["sortino"] == f"{(first + second) / 2 / (first**2 / 2) ** 0.5 * 252**0.5:.2f}"
    assert row["sortino"] == "19.42"  # 0.0095055 / 0.0077704 * 15.8745
    assert values_of(out)["flat"]["sortino"] == "n/a"


def test_short_loses_what_the_price_gains_and_cash_keeps_what_it_has(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rising = [100.0] * 31 + [110.0]
    path = write_csv(tmp_path / "up.csv", ("date", dates(32)), ("close", rising))
    _, out, _ = run("Trading-v0", "--policy", "short", "--data", str(path), "--episode-length", "1")
    # the sale of all the equity leaves 1 / 1.001 of it, which loses a tenth
    assert next(iter(values_of(out))) == "short"
    assert values_of(out)["short"]["return"] == f"{0.9 / 1.001 - 1:+.1%}" == "-10.1%"
    _, out, _ = run("Portfolio-v0", "--policy", "cash", "--data", "us_stocks", "--episodes", "2")
    row = values_of(out)["cash"]
    assert [row[name] for name in ("return", "vol", "drawdown", "turnover", "cost")] == [
        "+0.0%", "0.0%", "0.0%", "0.0", "0.00%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "more"),
    [
        ("Trading-v0", ["--data", "sp500"]),
        ("Portfolio-v0", ["--data", "us_stocks"]),
        ("Trading-v0", []),
        ("Portfolio-v0", []),
        ("MarketMaking-v0", []),
        ("OptimalExecution-v0", []),
    ],
)
def test_an_episode_has_as_many_steps_as_were_asked_for(
    id: str, more: list[str], run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(module, "draw_curves", lambda *arguments: drawn.extend(arguments))
    policy = next(iter(BASELINES[id]))
    code, _, err = run(id, "--policy", policy, "--episodes", "2", "--episode-length", "7", *more)
    assert (code, err) == (0, "")
    assert drawn[0][policy].shape == (8, 2)
    assert drawn[3].startswith("2 episodes of 7 steps, ")


def test_csv_and_parquet_of_the_same_prices_say_the_same(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    polars = pytest.importorskip("polars")
    columns = (("date", dates(400)), ("A", walk(400, 1)), ("B", walk(400, 2)))
    csv, parquet = write_csv(tmp_path / "p.csv", *columns), tmp_path / "p.parquet"
    polars.read_csv(csv, try_parse_dates=True).write_parquet(parquet)
    texts = [
        run("Portfolio-v0", "--policy", "kelly", "--data", str(path), "--episodes", "3") for path in (csv, parquet)
    ]
    assert texts[0][0] == 0
    assert texts[0] == texts[1]


def test_all_policies_play_the_same_windows() -> None:
    data = MarketData(walk(900))
    with VecRecordPerformance(make_vec("Trading-v0", 4, data=data, vector_kwargs={"autoreset": False})) as vec:
        starts = [
            [each.performance.ledger["timestamp"][0] for each in play(vec, make(vec, None), 3, 7, lambda amount: None)]
            for make in BASELINES["Trading-v0"].values()
        ]
    assert len(set(starts[0])) > 4  # of 12: later rounds begin elsewhere
    assert all(each == starts[0] for each in starts)


def test_progress_reaches_the_total_also_where_episodes_end_early() -> None:
    done = []
    with VecRecordPerformance(make_vec("OptimalExecution-v0", 3, vector_kwargs={"autoreset": False})) as vec:
        found = play(vec, policies.Immediate(vec), 2, 0, done.append)
    assert sum(done) == 2 * 3 * 25
    assert [len(each.performance.ledger["shortfall_bps"]) for each in found] == [2] * 6  # one slice
    # everything in the first slice: no shares are left when the mid moves
    # 0.0625 / 50 is 12.5 bps, and 2.5e-6 * 1e6 / 0.2 / 50 is 2500 bps
    assert [each.reward for each in found] == pytest.approx([-2512.5] * 6)


def test_an_episode_that_ends_early_keeps_its_last_value_in_the_picture() -> None:
    with VecRecordPerformance(make_vec("OptimalExecution-v0", 2, vector_kwargs={"autoreset": False})) as vec:
        early = play(vec, policies.Immediate(vec), 1, 0, lambda amount: None)
        late = play(vec, policies.TWAP(vec), 1, 0, lambda amount: None)
    curves = curves_of([early[0], late[1]], "shortfall_bps")
    assert curves.shape == (26, 2)
    assert curves[:, 0].tolist() == pytest.approx([0.0, *[2512.5] * 25])
    assert curves[:, 1].tolist() == late[1].performance.ledger["shortfall_bps"].tolist()


def test_many_episodes_are_played_in_rounds_and_none_too_many(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[tuple[int, int]] = []

    def counted(vec: Any, policy: Any, rounds: int, *rest: Any) -> Any:
        played.append((vec.num_envs, rounds))
        return play(vec, policy, rounds, *rest)

    monkeypatch.setattr(module, "SLOTS", 4)
    monkeypatch.setattr(module, "play", counted)
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(module, "draw_curves", lambda curves, *_: drawn.update(curves))
    code, _, _ = run("OptimalExecution-v0", "--policy", "twap", "--episodes", "10")
    assert code == 0
    assert played == [(4, 3)] * 3
    assert [curves.shape for curves in drawn.values()] == [(26, 10), (26, 10), (2, 10)]
    played.clear()
    run("OptimalExecution-v0", "--policy", "twap", "--episodes", "9")
    assert played == [(3, 3)] * 3


def test_on_a_terminal_numbers_stand_in_a_table_that_eighty_characters_hold(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    for id, policy in (("OptimalExecution-v0", "immediate"), ("MarketMaking-v0", "avellaneda-stoikov")):
        _, out, _ = run(id, "--policy", policy, "--episodes", "8")
        (row,) = (line for line in out.splitlines() if line.strip().startswith(policy))
        assert len(row.split()) == 1 + len(REPORTS[id].columns)
        assert len([line for line in out.splitlines() if line.strip()]) == 4 + len(BASELINES[id])  # no cell is broken


@pytest.mark.parametrize(("width", "tables"), [(100, 1), (80, 2), (40, 5)])
def test_a_table_too_wide_for_the_terminal_is_several_and_no_cell_is_broken(
    width: int, tables: int, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("Portfolio-v0", "--policy", "minimum-variance", "--data", "us_stocks", "--episodes", "4")
    plain = values_of(run(*arguments)[1])
    monkeypatch.setattr(module, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(*arguments)
    lines = out.splitlines()[:-1]  # but for the path of the picture
    assert max(map(len, lines)) <= width
    heads = [line.split()[1:] for line in lines if line.split()[:1] == ["policy"]]
    assert len(heads) == tables
    assert [title for head in heads for title in head] == list(REPORTS["Portfolio-v0"].columns)
    for name, cells in plain.items():
        rows = [line.split()[1:] for line in lines if line.split()[:1] == [name]]
        assert [cell for row in rows for cell in row] == list(cells.values())


# ---- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS)
def test_an_unknown_policy_lists_the_known_names(id: str, run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run(id, "--policy", "best")
    assert (code, out) == (2, "")
    assert err == f"Error: {id} has no policy 'best'; expected one of {', '.join(BASELINES[id])}.\n"


def test_the_help_lists_the_policies_of_every_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(POLICIES) == [f"{id}: {', '.join(known)}" for id, known in BASELINES.items()]
    assert main(["backtest", "-h"]) == 0
    assert "Trading-v0: flat, buy-and-hold, short, momentum, cppi" in capsys.readouterr().out


TOO_LONG = {
    # 300 rows: decisions from row 30 on, and a price after each step
    "Trading-v0": (300, "270", "300 rows, of which the first 30 come before the first decision", "269"),
    # the first 100 are for the moments
    "Portfolio-v0": (300, "200", "300 rows, of which the first 100 come before the first decision", "199"),
}


@pytest.mark.parametrize("id", TOO_LONG)
def test_an_episode_longer_than_the_history_is_refused_and_the_longest_named_fits(
    id: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rows, length, what, most = TOO_LONG[id]
    path = write_csv(tmp_path / "p.csv", ("date", dates(rows)), ("A", walk(rows, 1)), ("B", walk(rows, 2)))
    if id == "Trading-v0":
        path = write_csv(tmp_path / "p.csv", ("date", dates(rows)), ("close", walk(rows)))
    arguments = (id, "--policy", "buy-and-hold", "--data", str(path), "--episodes", "2", "--episode-length")
    code, out, err = run(*arguments, length)
    assert (code, out) == (2, "")
    assert err == (
        f"Error: An episode of {length} steps does not fit into --data {path}: {what}; expected an --episode-length of "
        f"at most {most}, or a longer history.\n"
    )
    assert run(*arguments, most)[0] == 0


def test_a_history_without_room_for_one_step_is_refused(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "p.csv", ("date", dates(31)), ("close", walk(31)))
    for id, policy in (("Trading-v0", "flat"), ("Portfolio-v0", "cash")):
        code, _, err = run(id, "--policy", policy, "--data", str(path))
        assert code == 2
        assert err == (
            f"Error: An episode of 252 steps does not fit into --data {path}: 31 rows, of which the first 30 come "
            "before the first decision; expected a longer history.\n"
        )


def test_an_environment_without_baselines_is_refused(run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run("CartPole-v1", "--policy", "flat")
    assert code == 2
    assert err == f"Error: CartPole-v1 has no baselines to run; expected one of {', '.join(IDS)}.\n"


@pytest.mark.parametrize(("id", "policy"), [("MarketMaking-v0", "glft"), ("OptimalExecution-v0", "twap")])
def test_a_simulated_market_takes_no_history(id: str, policy: str, run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run(id, "--policy", policy, "--data", "sp500")
    assert code == 2
    assert err == (
        f"Error: --data sp500 was given, and the market of {id} is simulated: leave it out, or choose Trading-v0 or "
        "Portfolio-v0.\n"
    )


BAD_FILES = {
    "missing price": ([1.0, 2.0, "", 4.0], None, r"close\[2\] \(2020-01-03\) is nan; expected finite prices above 0"),
    "zero": ([1.0, 0.0, 3.0, 4.0], None, r"close\[1\] \(2020-01-02\) is 0\.0; expected finite prices above 0"),
    "negative": ([1.0, 2.0, 3.0, -4.0], None, r"close\[3\] \(2020-01-04\) is -4\.0; expected finite prices above 0"),
    "text": ([1.0, "x", 3.0, 4.0], None, r"column 'close' has 'x' in row 1; expected a number"),
    "unsorted": (
        [1.0, 2.0, 3.0, 4.0],
        ["2020-01-01", "2020-01-03", "2020-01-02", "2020-01-04"],
        r"date\[2\] is 2020-01-02, not after date\[1\], 2020-01-03",
    ),
    "repeated": (
        [1.0, 2.0, 3.0, 4.0],
        ["2020-01-01", "2020-01-02", "2020-01-02", "2020-01-04"],
        r"date\[2\] is 2020-01-02, not after date\[1\], 2020-01-02",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line_that_names_row_and_column_and_leaves_nothing_behind(
    name: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    prices, days, message = BAD_FILES[name]
    path = write_csv(tmp_path / "bad.csv", ("date", days or dates(4)), ("close", prices))
    code, out, err = run("Trading-v0", "--policy", "flat", "--data", str(path))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert re.match(rf"Error: {re.escape(str(path))}: {message}", err)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_asset_that_is_not_listed_everywhere_is_named_with_its_row(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "gap.csv", ("date", dates(3)), ("A", [1, 2, 3]), ("B", [1, "", 3]))
    code, _, err = run("Portfolio-v0", "--policy", "kelly", "--data", str(path))
    assert code == 2
    assert err == f"Error: {path}: prices[1, 1] (B, 2020-01-02) is NaN; expected a price in every row.\n"


def test_a_file_that_is_none_is_refused(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    for given, what in ((tmp_path / "none.csv", "there is no such file"), (tmp_path, "is a folder")):
        code, _, err = run("Trading-v0", "--policy", "flat", "--data", str(given))
        assert code == 2
        assert what in err
        assert err.endswith("expected a CSV or Parquet file, or sp500, nasdaq or us_stocks.\n")
    (tmp_path / "no.parquet").write_text("no table")
    code, _, err = run("Trading-v0", "--policy", "flat", "--data", str(tmp_path / "no.parquet"))
    assert code == 2
    assert err.count("\n") == 1
    assert str(tmp_path / "no.parquet") in err


@pytest.mark.parametrize("keep", [10, -20], ids=["cut short", "checksum gone"])
def test_a_compressed_file_that_is_not_whole_is_refused_by_name(
    keep: int, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    whole = gzip.compress(write_csv(tmp_path / "whole.csv", ("date", dates(400)), ("close", walk(400))).read_bytes())
    for name, content in (("part.csv.gz", whole[:keep]), ("none.csv.gz", b"no gzip at all")):
        path = tmp_path / name
        path.write_bytes(content)
        code, out, err = run("Trading-v0", "--policy", "flat", "--data", str(path))
        assert (code, out) == (2, "")
        assert err.startswith(f"Error: --data {path} cannot be read: ") and err.count("\n") == 1
        assert err.endswith("expected a whole CSV or Parquet file.\n")


def test_every_round_has_a_market_of_its_own_that_all_policies_meet() -> None:
    def mids(policy: Any) -> list[float]:
        vec = VecRecordPerformance(
            make_vec("OptimalExecution-v0", 2, n_steps=4, vector_kwargs={"autoreset": "disabled"})
        )
        found = play(vec, policy(vec), 3, 7, lambda amount: None)
        return [each.performance.ledger["mid_price"][1] for each in found]

    at_once = mids(policies.Immediate)  # ends after a step, so that a stream that went on would have moved less
    in_slices = mids(policies.TWAP)
    # permanent impact 2.5e-7 a share: 1,000,000 at once against 250,000, 0.25 against 0.0625
    assert at_once == pytest.approx([mid - 0.1875 for mid in in_slices], abs=1e-9)
    assert len({round(mid, 9) for mid in at_once}) == 6


def test_a_picture_that_cannot_be_saved_leaves_the_old_one(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    def half(self: Figure, path: Path, **_: Any) -> None:
        path.write_bytes(PNG)
        raise OSError("the disk is full")

    arguments = ("OptimalExecution-v0", "--policy", "twap", "--episodes", "2")
    run(*arguments)
    old = (tmp_path / "out" / "picture.png").read_bytes()
    monkeypatch.setattr(Figure, "savefig", half)
    code, _, err = run(*arguments)
    assert (code, err) == (2, "Error: the disk is full\n")
    assert (tmp_path / "out" / "picture.png").read_bytes() == old
    assert len(list((tmp_path / "out").iterdir())) == 1


# ---- names, estimates, limits ---------------------------------------------------------------------


def test_histories_go_by_the_names_that_the_help_lists() -> None:
    assert list(HISTORIES) == ["sp500", "nasdaq", "us_stocks"]
    assert len(read_history("sp500")) == 5031
    with pytest.raises(BadValue, match="no such file"):
        read_history("sp501")


def test_weights_without_shorts_meet_the_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(6, 9))
    covariance, linear = factor @ factor.T / 9, rng.normal(0.1, 1.0, 6)
    weights = without_shorts(linear, covariance)
    gradient = covariance @ weights - linear
    assert (weights >= 0).all()
    assert 0 < (weights > 0).sum() < 6
    np.testing.assert_allclose(gradient[weights > 0], 0.0, atol=1e-9)
    assert (gradient[weights == 0] > 0).all()
    clipped = np.maximum(np.linalg.solve(covariance, linear), 0.0)  # the plausible wrong weights
    assert np.abs(clipped - weights).max() > 1e-3


def test_two_assets_without_correlation_are_weighted_by_inverse_variance() -> None:
    past = Estimates(np.array([0.02, 0.04]), np.diag([0.04, 0.16]))
    # 1/0.04 = 25 and 1/0.16 = 6.25, of 31.25; Kelly: 0.02/0.04 = 0.5 and 0.04/0.16 = 0.25, sum below 1
    assert past.minimum_variance.tolist() == pytest.approx([0.8, 0.2])
    assert past.kelly.tolist() == pytest.approx([0.5, 0.25])
    assert past._replace(mean=4 * past.mean).kelly.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_estimates_are_of_the_drift_and_not_of_the_mean_log_return() -> None:
    rows = np.array([[0.1, 0.0], [-0.1, 0.2], [0.3, 0.1], [0.1, 0.3]])
    found = estimate(MarketData(np.exp(np.vstack([[0.0, 0.0], rows.cumsum(axis=0)]))), 10.0)
    # log returns of the first: mean 0.1, deviations 0, -0.2, 0.2, 0, variance 0.08 / 3; per year 10 times as much
    assert found.covariance[0, 0] == pytest.approx(0.8 / 3, rel=1e-6)
    assert found.mean[0] == pytest.approx(1.0 + 0.4 / 3, rel=1e-6)


def test_moments_that_cannot_be_estimated_are_refused() -> None:
    with pytest.raises(BadValue, match=r"2 returns are left .* of 2 assets; expected at least 3"):
        estimate(MarketData(np.ones((3, 2)) + np.arange(3)[:, None]), 252)
    twice = np.array(walk(50))
    with pytest.raises(BadValue, match="some assets repeat the others"):
        estimate(MarketData(np.column_stack([twice, 2 * twice])), 252)


def test_the_axis_leaves_out_a_policy_that_is_far_away_and_keeps_the_others() -> None:
    ramp = np.linspace(0.0, 1.0, 11)[:, None] * np.ones((1, 4))
    low, high = limits([ramp, 2.5 * ramp, 100.0 * ramp])
    assert (low, high) == pytest.approx((-0.125, 2.625))  # a twentieth of 2.5 on either side
    assert limits([100.0 * ramp, ramp])[1] == pytest.approx(105.0)
    flat = np.ones((11, 4))
    assert limits([flat, 1.0 - ramp])[0] < 0.0  # no extent to measure by: everything is drawn


def test_the_picture_has_the_median_of_every_policy_and_where_its_episodes_ended() -> None:
    first = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 2.0, 1.0, 3.0]])
    figure = curves_figure({"asked": first, "other": first + np.array([[1.0], [2.0]])}, "Title", "what", "Unit")
    fan, ends = figure.axes
    other, asked = (line.get_ydata().tolist() for line in fan.lines)
    assert (asked, other) == ([0.0, 2.0], [1.0, 4.0])
    middle, wide = (area.get_paths()[0].vertices for area in reversed(fan.collections))
    # quartiles of 0 to 4 are 1 and 3; 5 % and 95 % are 0.2 and 3.8
    assert [(middle[:, 1].min(), middle[:, 1].max())] == [(0.0, 3.0)] and 1.0 in middle[:, 1]
    assert wide[:, 1].max() == pytest.approx(3.8) and np.isclose(wide[:, 1], 0.2).any()
    spans = [line.get_ydata().tolist() for line in ends.lines]
    assert spans[:3] == [pytest.approx([0.2, 3.8]), [1.0, 3.0], [2.0]]
    assert spans[3:] == [pytest.approx([2.2, 5.8]), [3.0, 5.0], [4.0]]
    (labels,) = figure.legends
    assert [label.get_text() for label in labels.get_texts()] == ["asked", "other"]
    assert [handle.get_color() for handle in labels.get_lines()] == [fan.lines[1].get_color(), fan.lines[0].get_color()]
    assert (fan.get_ylabel(), fan.get_xlabel()) == ("Unit", "Step")
    assert [text.get_text() for text in figure.texts] == ["Title", "what"]
