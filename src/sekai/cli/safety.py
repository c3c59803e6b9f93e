"""`sekai train` and `sekai certify`: a safety run in a folder, and what its certificate is worth."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sekai.cli.errors import BadValue
from sekai.cli.output import on_terminal, progress, show_table
from sekai.registry import make

CERTIFICATE, PICTURE = "certificate.json", "certificate.png"


def train(
    task: str,
    *,
    algorithm: str,
    mode: str,
    steps: int,
    seed: int,
    num_envs: int,
    folder: Path,
    task_options: Sequence[str],
    learner_options: Sequence[str],
) -> None:
    """Train in a folder, or go on there, then certify.

    Raises:
        BadValue: a task that is no safety environment, or options that cannot be read.
    """
    system_of(task, parsed(task_options))  # before anything is loaded that takes long
    from sekai.safety.training import RunConfig
    from sekai.safety.training import train as run

    config = RunConfig(
        task=task,
        algorithm=algorithm,
        mode=mode,
        seed=seed,
        num_envs=num_envs,
        task_options=parsed(task_options),
        learner_options=parsed(learner_options),
    )
    started = time.perf_counter()
    with progress(f"{mode} {algorithm} on {task}", steps) as advance:
        learner = run(config, steps, folder, advance=advance, threads=1)
    print(f"{folder} steps={learner.num_timesteps} seconds={time.perf_counter() - started:.1f}")
    certify(folder)


def certify(folder: Path, *, rollouts: int = 4000, seed: int = 0) -> None:
    """Measure the certificate of a run against the truth, and write its numbers and picture into the folder."""
    from sekai.safety.certificates import evaluate_certificate
    from sekai.safety.picture import draw_certificate
    from sekai.safety.training import load_run
    from sekai.safety.truth import truth_of

    config, learner = load_run(folder)
    system = system_of(config.task, config.task_options)
    report = evaluate_certificate(learner, system, truth_of(system), rollouts=rollouts, seed=seed)
    numbers = report.numbers()
    (folder / CERTIFICATE).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    title = f"{type(learner).__name__} on {config.task}, {learner.num_timesteps:,} steps, seed {config.seed}"
    draw_certificate(report, system, folder / PICTURE, title)
    _show(title, numbers)
    print(f"{folder / PICTURE} saved")


def system_of(task: str, options: dict[str, Any]) -> Any:
    """The system of a task.

    Raises:
        BadValue: it has none, so that nothing is known of it to compare with.
    """
    env = make(task, **options)
    try:
        system = getattr(env.unwrapped, "system", None)
    finally:
        env.close()
    if system is None:
        raise BadValue(f"{task} is no safety task with a known system; `sekai list` shows those that are: safety/...")
    return system


def parsed(options: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` options; values are JSON, or text that is none.

    Raises:
        BadValue: an option without a name or value.
    """
    found: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.isidentifier():
            raise BadValue(f"{option!r} is no NAME=VALUE, such as failure_value=-0.5.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _show(title: str, numbers: dict[str, Any]) -> None:
    low, high = numbers["fails_if_certified_bounds"]
    rows = [
        ("intersection over union with the exact set", "iou", f"{numbers['iou']:.4f}"),
        ("wrongly called safe, share of the exact set", "false_safe", f"{numbers['false_safe']:.4f}"),
        ("missed, share of the exact set", "missed", f"{numbers['missed']:.4f}"),
        ("policy keeps the promise in the exact set", "policy_keeps", f"{numbers['policy_keeps']:.4f}"),
        ("P(fail | V >= 0)", "p_fail_certified", f"{numbers['fails_if_certified']:.4f}"),
        ("  at least, at most", "p_fail_bounds", f"{low:.4f}..{high:.4f}"),
        ("P(V >= 0 | fail)", "p_certified_fail", f"{numbers['certified_if_fails']:.4f}"),
    ]
    if on_terminal():
        show_table(title, ("certificate", "value"), [(text, value) for text, _, value in rows], right=True)
    else:
        print(title.replace(" ", "_"), *(f"{name}={value}" for _, name, value in rows))
