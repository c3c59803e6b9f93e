"""The commands and their options, and how errors leave the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sekai.cli.errors import BadValue, one_line
from sekai.cli.output import on_terminal


class Mode(StrEnum):
    """Values of `--mode`."""

    auto = "auto"
    native = "native"
    sync = "sync"
    asyncio = "async"
    proc = "proc"
    ray = "ray"


app = typer.Typer(
    name="sekai",
    help="Parallel environments for reinforcement learning.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if on_terminal() else None,
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see `sekai.cli.main`."""
    try:
        code = app(arguments if arguments is None else list(arguments), prog_name="sekai", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader has gone (`sekai list | head -1`): nothing is left to tell anyone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        print(f"Error: {one_line(error)}", file=sys.stderr)
        return 2


def _print_version(wanted: bool) -> None:
    if wanted:
        # the root package stands above this one, and is always loaded before it
        print(f"sekai {sys.modules['sekai'].__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _before_every_command(
    context: typer.Context,
    modules: Annotated[
        list[str] | None,
        typer.Option("-m", metavar="MODULE", help="Import this module first, so that it registers its ids."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    for module in modules or ():
        _import_first(module)
    if context.invoked_subcommand is None:
        print(context.get_help())


def _import_first(module: str) -> None:
    """Import a module as `python -m` would find it, the current folder included."""
    from sekai.registry.specs import import_module

    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        import_module(module, f"-m {module}")
    except ImportError:
        raise
    except Exception as error:
        raise BadValue(f"-m {module}: importing it raised {type(error).__name__}: {error}") from error


@app.command("list")
def _list(tasks: Annotated[bool, typer.Option("--tasks", help="List what `sekai train` learns.")] = False) -> None:
    """List sekai's environments (any id of gymnasium's works too), or its safety tasks."""
    from sekai.cli.listing import list_environments, list_tasks

    if tasks:
        list_tasks()
    else:
        list_environments()


@app.command("info")
def _info(id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Show spaces, time limit and arguments of one environment."""
    from sekai.cli.listing import show_environment

    show_environment(id)


@app.command("bench")
def _bench(
    id: Annotated[str, typer.Argument(metavar="ID")],
    num_envs: Annotated[int, typer.Option(min=1, help="Sub-environments.")] = 16,
    mode: Annotated[Mode, typer.Option(help="Backend; auto is native where there is one, else sync.")] = Mode.auto,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers of modes proc and ray: by default one per sub-env, or core with --compare."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Vector steps to time, each of NUM_ENVS env steps; by default 1000, or 0.2 seconds with --compare.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of environments and actions.")] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Measure all backends that fit, side by side, and recommend one.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="With --compare: turns of each backend.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option(help="With --compare: where the picture goes; bench.png where matplotlib is installed."),
    ] = None,
) -> None:
    """Measure throughput with random actions, in env steps per second."""
    if compare:
        from sekai.cli.compare import compare as run_all

        if mode is not Mode.auto:
            raise BadValue(f"--compare measures every backend that fits: leave out --mode {mode.value}.")
        run_all(id, num_envs=num_envs, workers=workers, steps=steps, rounds=rounds, seed=seed, output=output)
        return
    if output is not None:
        raise BadValue(f"--output {output} is for --compare: one backend alone makes no picture.")
    from sekai.cli.bench import bench

    print(bench(id, num_envs=num_envs, mode=mode.value, workers=workers, steps=steps or 1000, seed=seed))


@app.command("check")
def _check(
    id: Annotated[str, typer.Argument(metavar="ID")],
    steps: Annotated[int, typer.Option(min=1, help="Steps to take with random actions.")] = 500,
    determinism: Annotated[bool, typer.Option("--determinism", help="Also play everything twice and compare.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
) -> int:
    """Look for mistakes in an environment; the exit code is 1 where there are some."""
    from sekai.cli.check import check

    return check(id, steps=steps, determinism=determinism, strict=strict)


@app.command("demo")
def _demo(
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo.png"),
    windows: Annotated[int, typer.Option(min=2, help="Parallel windows of a year each.")] = 1024,
) -> None:
    """Evaluate three trading rules over parallel windows of real S&P 500 history."""
    from sekai.cli.demo import demo

    demo(output, windows)


# written out, since the modules of the baselines are only imported when the command runs
POLICIES = (
    "Trading-v0: flat, buy-and-hold, short, momentum, cppi",
    "Portfolio-v0: equal-weight, buy-and-hold, cash, no-trade-band, minimum-variance, kelly",
    "MarketMaking-v0: fixed-spread, avellaneda-stoikov, glft, cartea-jaimungal",
    "OptimalExecution-v0: twap, almgren-chriss, immediate",
)


@app.command("backtest", epilog="\n\n".join(("The policies:", *POLICIES)))
def _backtest(
    id: Annotated[str, typer.Argument(metavar="ID")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="Which baseline of ID; see below.")],
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE|NAME", help="A CSV or Parquet file, sp500, nasdaq or us_stocks; else simulated."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes that each policy plays.")] = 256,
    episode_length: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode; by default as many as ID has.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("backtest.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the environments.")] = 0,
) -> None:
    """Run a baseline of a finance environment against the others, with a table and a picture."""
    from sekai.cli.backtest import backtest

    backtest(id, policy=policy, data=data, episodes=episodes, length=episode_length, output=output, seed=seed)


@app.command("lab")
def _lab(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any that is free.")] = 5006,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open nothing.")] = False,
) -> None:
    """Open a page that shows what each row of a vector environment is (extra `lab`)."""
    from sekai.cli.lab import lab

    lab(port, browser=not no_browser)


class Algorithm(StrEnum):
    """Values of `--algo`."""

    ppo = "ppo"
    sac = "sac"
    a2c = "a2c"
    dqn = "dqn"


class SafetyMode(StrEnum):
    """Values of `--mode` of `train`."""

    avoid = "avoid"
    reach_avoid = "reach-avoid"


@app.command("train")
def _train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the run; one that has begun goes on.")],
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="One of `sekai list --tasks`; a recipe may name it.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML of what is not given here; DIR/recipe.yaml is one.")
    ] = None,
    algo: Annotated[Algorithm | None, typer.Option(help="Learner; ppo.")] = None,
    mode: Annotated[SafetyMode | None, typer.Option(help="What the value means; follows from TASK.")] = None,
    players: Annotated[int | None, typer.Option(min=1, help="1, or 2 with an adversary; 1.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Environment steps of all calls, rounded up to whole rollouts; 400000."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of environments and learner; 0.")] = None,
    num_envs: Annotated[int | None, typer.Option(min=1, help="Parallel environments; 64.")] = None,
    warmstart: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run to begin with the weights of, of the task that TASK names.")
    ] = None,
    task_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Argument of TASK.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Argument of the learner.")] = None,
) -> None:
    """Train a safety learner in a folder, and certify it."""
    from sekai.cli.safety import train

    given = {
        "task": task,
        "mode": None if mode is None else mode.value,
        "algorithm": None if algo is None else algo.value,
        "players": players,
        "seed": seed,
        "steps": steps,
        "num_envs": num_envs,
        "task_options": task_option or [],
        "learner_options": option or [],
        "warmstart": None if warmstart is None else str(warmstart),
    }
    train(recipe, out, given)


@app.command("certify")
def _certify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    rollouts: Annotated[int, typer.Option(min=1, help="From as many random states.")] = 4000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a rollout.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of these states.")] = 0,
    risk: Annotated[float, typer.Option(help="Largest P(fail) above the calibrated threshold.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="That the risk is no higher.")] = 0.95,
    best_response: Annotated[
        int, typer.Option(min=0, help="Environment steps of training a disturbance to break this policy.")
    ] = 0,
    html: Annotated[bool, typer.Option("--html/--no-html", help="Write certificate.html.")] = True,
) -> None:
    """Calibrate the certificate of a safety run, and measure it where the truth is known, with a picture and a page."""
    from sekai.cli.safety import certify

    certify(
        folder,
        rollouts=rollouts,
        steps=steps,
        seed=seed,
        risk=risk,
        confidence=confidence,
        best_response=best_response,
        html=html,
    )
