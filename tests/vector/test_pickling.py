"""What may travel to another process, and what is refused."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest

from sekai.vector.pickling import dumps
from tests.contract.envs import Coded, factory


def test_plain_data_travel_by_pickle_and_functions_by_value() -> None:
    assert pickle.loads(dumps((1, {"a": np.arange(3)}, Coded)))[2] is Coded
    k = 5
    assert pickle.loads(dumps([lambda x: x + k]))[0](1) == 6
    assert pickle.loads(dumps([factory(Coded, 3)]))[0]().slot == 3


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"deep": [value]}, lambda value: lambda: value])
def test_locks_and_open_files_are_refused_at_any_depth(wrap: object) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        dumps(wrap(threading.Lock()))  # type: ignore[operator]  # a function
    with (
        open(os.devnull, encoding="ascii") as handle,
        pytest.raises(pickle.PicklingError, match=r"is open in this process only; send its path instead\."),
    ):
        dumps([lambda: None, wrap(handle)])  # type: ignore[operator]  # a function
