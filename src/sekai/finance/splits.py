"""Walk-forward splits: where training episodes may begin, and where test episodes may, fold by fold."""

from __future__ import annotations

from typing import NamedTuple

from sekai.spaces.checks import whole_number


class Fold(NamedTuple):
    """One fold: rows of first decisions.

    An episode that begins at row `s` reads the rows from `s - lookback` to `s + episode_length`, both included. In an
    environment on the whole history, `RandomStart(fold.train.start - lookback, fold.train.stop - lookback)` draws from
    a range.

    Attributes:
        train: first decisions of training episodes.
        test: first decisions of test episodes.
    """

    train: range
    test: range


def walk_forward(
    n: int,
    train: int,
    test: int,
    step: int | None = None,
    expanding: bool = False,
    embargo: int = 0,
    *,
    lookback: int,
    episode_length: int,
    warmup: bool = False,
) -> list[Fold]:
    """Train on some rows, test on later ones, move on and do it again.

        fold 0   [==== train ====)  embargo  [= test =)
        fold 1      step [==== train ====)  embargo  [= test =)

    No training episode reads a row that a test episode of the fold reads. With `warmup=True` the lookback of a test
    episode may reach back into the rows before the test, which leaks nothing of the future; no test decision does.

    Args:
        n: rows of the history, `len(data)`.
        train: rows to train on; with `expanding` in the first fold.
        test: rows to test on.
        step: rows between folds; None: `test`, so that tests follow one another.
        expanding: whether training always begins at row 0.
        embargo: rows between training and test that neither reads (with `warmup`, only a lookback does).
        lookback: returns in an observation, as given to the environment.
        episode_length: steps of an episode, as given to the environment.
        warmup: see above.

    Returns:
        As many folds as fit. Rows at the end that do not fill another test are not used.

    Raises:
        TypeError: no whole numbers.
        ValueError: not even one fold fits, or no episode fits into the rows of training or test.
    """
    n = whole_number("n", n, minimum=1)
    train, test = whole_number("train", train, minimum=1), whole_number("test", test, minimum=1)
    step = test if step is None else whole_number("step", step, minimum=1)
    embargo, lookback = whole_number("embargo", embargo, minimum=0), whole_number("lookback", lookback, minimum=0)
    episode_length = whole_number("episode_length", episode_length, minimum=1)
    before = 0 if warmup else lookback
    if train + embargo + test > n:
        raise ValueError(
            f"n is {n}; expected at least {train + embargo + test} rows: train={train}, embargo={embargo}, test={test}."
        )
    for name, rows, needed in (("train", train, lookback + episode_length), ("test", test, before + episode_length)):
        if rows <= needed:
            raise ValueError(
                f"{name} is {rows}; expected at least {needed + 1}, or no episode fits: lookback={lookback}, "
                f"episode_length={episode_length}, warmup={warmup}."
            )
    folds = []
    for end in range(train, n - embargo - test + 1, step):
        first = lookback + (0 if expanding else end - train)
        begin = end + embargo
        folds.append(Fold(range(first, end - episode_length), range(begin + before, begin + test - episode_length)))
    return folds
