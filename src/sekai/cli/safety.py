"""`sekai train` and `sekai certify`: a safety run in a folder, and what its certificate is worth."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.cli.errors import BadValue
from sekai.cli.output import on_terminal, progress, show_table

if TYPE_CHECKING:
    from sekai.safety.certificates import CertificateReport
    from sekai.safety.certify import Certificate

PICTURE, REPORT = "certificate.png", "report.html"


def train(recipe_file: Path | None, folder: Path, given: Mapping[str, Any]) -> None:
    """Train in a folder, or go on there, then certify, where the task has a system.

    Args:
        recipe_file: says what is not given; None for the defaults.
        folder: of the run.
        given: parts of a recipe by name, None for what is not given; options as `NAME=VALUE`.

    Raises:
        BadValue: options that cannot be read.
        EnvNotFound: the task is none.
        ValueError: what has no meaning for the task, or is no recipe.
    """
    from sekai.safety.tasks import find_task
    from sekai.safety.tasks.recipes import OPTIONS, read_recipe, recipe_of, resolved

    said = {} if recipe_file is None else read_recipe(recipe_file)
    options = {name: parsed(given[name]) for name in OPTIONS}
    recipe = recipe_of(said, {**given, **options})
    system = find_task(recipe.task).system(**recipe.task_options)  # before anything is loaded that takes long
    recipe = resolved(recipe)
    from sekai.safety.training import RunConfig
    from sekai.safety.training import train as run

    config = RunConfig(**{part.name: getattr(recipe, part.name) for part in fields(RunConfig)})
    started = time.perf_counter()
    with progress(f"{recipe.mode} {recipe.algorithm} on {recipe.task}", recipe.steps) as advance:
        learner = run(config, recipe.steps, folder, advance=advance, threads=1)
    print(f"{folder} steps={learner.num_timesteps} seconds={time.perf_counter() - started:.1f}")
    _write_report(folder, learner)
    if system is None:
        print(f"{folder} no_certificate: {recipe.task} has no system to certify")
    else:
        certify(folder)


def certify(
    folder: Path,
    *,
    rollouts: int = 4000,
    steps: int = 200,
    seed: int = 0,
    risk: float = 0.01,
    confidence: float = 0.95,
    best_response: int = 0,
    html: bool = True,
) -> None:
    """Calibrate the certificate of a run, and measure it where the truth is known; what comes of it goes to the folder.

    Args:
        folder: of the run.
        rollouts: from as many random states; half as many of each set choose and check the threshold, and at least as
            many as the risk and the confidence take.
        steps: of a rollout.
        seed: of these states.
        risk, confidence: of the calibrated certificate, within (0, 1).
        best_response: for how many environment steps a disturbance is trained to break this policy; 0 for none.
        html: whether to write the page.
    """
    import numpy as np

    from sekai.safety.binomial import trials_needed
    from sekai.safety.calibration import Plan
    from sekai.safety.certificates import evaluate_certificate
    from sekai.safety.certify import certify as calibrate
    from sekai.safety.learning import read_curves
    from sekai.safety.opponents import opponents_for
    from sekai.safety.picture import draw_certificate
    from sekai.safety.saving import PAGE, save_certificate
    from sekai.safety.starts import Starts
    from sekai.safety.training import PROGRESS, load_run
    from sekai.safety.truth import comparable, truth_of

    plan = Plan(rollouts=max(rollouts // 2, trials_needed(risk, confidence=confidence)), steps=steps, seed=seed)
    config, learner = load_run(folder, threads=1)
    system = system_of(config.task, config.task_options)
    truth = truth_of(system) if comparable(system) else None
    against, tried = None, 0
    if best_response:
        values = truth or Starts(learner, system, np.random.default_rng(seed)).values_of
        response, tried = _trained_opponent(learner, system, config.num_envs, best_response, seed)
        against = {**opponents_for(learner, system, values, seed=seed), "best_response": response}
    title = f"{type(learner).__name__} on {config.task}, {learner.num_timesteps:,} steps, seed {config.seed}"
    report = None
    if truth is not None:
        report = evaluate_certificate(
            learner, system, truth, opponents=against, rollouts=rollouts, steps=steps, seed=seed
        )
        draw_certificate(report, folder / PICTURE, title)
    certificate = calibrate(
        learner,
        system,
        risk=risk,
        confidence=confidence,
        opponents=against,
        truth=truth,
        best_response_steps=tried,
        plan=plan,
    )
    curves = read_curves(folder / PROGRESS)
    save_certificate(certificate, folder, title=title, report=report, curves=curves, html=html)
    _show(folder, title, certificate, report)
    for name, written in ((PICTURE, report is not None), (PAGE, html)):
        if written:
            print(f"{folder / name} saved")


def _trained_opponent(learner: Any, system: Any, num_envs: int, steps: int, seed: int) -> tuple[Any, int]:
    """A disturbance that has been trained against the policy of a learner, and for how many environment steps."""
    from sekai.safety.learners import best_response
    from sekai.safety.tensor import SafetyTensorEnv

    if system.disturbance is None:
        raise BadValue(f"--best-response {steps}: {system} has no disturbance, so there is nothing to respond with.")
    env = SafetyTensorEnv(num_envs, system, disturbance="player", seed=seed)
    with progress("best response", steps) as advance:

        def tell(found: Any, everywhere: Any) -> bool:
            advance(env.num_envs)
            return True

        response = best_response(learner, env, mode=learner.mode, steps=steps, seed=seed, callback=tell)
    return response.opponents(system)["current"], response.num_timesteps


def _write_report(folder: Path, learner: Any) -> None:
    """Write the page of a run."""
    from sekai.safety.learning import read_curves, run_page
    from sekai.safety.training import CONFIG, PROGRESS

    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    title = f"{type(learner).__name__} on {config['task']}, {learner.num_timesteps:,} steps, seed {config['seed']}"
    text = run_page(title, config, read_curves(folder / PROGRESS), f"sekai {sys.modules['sekai'].__version__}")
    (folder / REPORT).write_text(text, encoding="utf-8")
    print(f"{folder / REPORT} saved")


def system_of(id: str, options: dict[str, Any]) -> Any:
    """The system of a task.

    Raises:
        BadValue: it has none.
    """
    from sekai.safety.tasks import find_task

    system = find_task(id).system(**options)
    if system is None:
        raise BadValue(
            f"{id} has no system, so rollouts cannot begin in states that are drawn: in Python "
            "sekai.safety.certify.certify(learner, task.vec(16)) plays episodes."
        )
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


def _show(folder: Path, title: str, certificate: Certificate, report: CertificateReport | None) -> None:
    threshold = "none" if certificate.threshold is None else f"{certificate.threshold:.4f}"
    rows = [
        *([] if report is None else _measured(report)),
        (f"threshold for a risk of {certificate.risk:g}", "threshold", threshold),
        ("  share of initial states above it", "share", f"{certificate.share:.4f}"),
    ]
    if on_terminal():
        show_table(title, ("certificate", "value"), [(text, value) for text, _, value in rows], right=True)
    else:
        print(folder, *(f"{name}={value}" for _, name, value in rows))
    print(certificate)


def _measured(report: CertificateReport) -> list[tuple[str, str, str]]:
    """What it is, its key in the file, and the number."""
    low, high = report.fails_if_certified_bounds
    return [
        ("intersection over union with the exact set", "iou", f"{report.sets.iou:.4f}"),
        ("wrongly called safe, share of the exact set", "false_safe", f"{report.sets.false_safe:.4f}"),
        ("missed, share of the exact set", "missed", f"{report.sets.missed:.4f}"),
        ("policy keeps the promise in the exact set", "policy_keeps", f"{report.policy_keeps:.4f}"),
        ("P(fail | V >= 0)", "fails_if_certified", f"{report.fails_if_certified:.4f}"),
        ("  at least, at most", "fails_if_certified_bounds", f"{low:.4f}..{high:.4f}"),
        ("P(V >= 0 | fail)", "certified_if_fails", f"{report.certified_if_fails:.4f}"),
    ]
