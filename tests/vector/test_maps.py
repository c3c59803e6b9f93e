"""Large arrays go to workers as files: mapped, shared, private when written to, removed at the end."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.testing import CodedEnv
from sekai.vector import ProcVecEnv
from sekai.vector.maps import LARGE, ArrayFiles
from sekai.vector.pickling import dumps_by_value

BIG = np.arange(LARGE // 8, dtype=np.float64)


def sent(value: Any, files: ArrayFiles) -> Any:
    return pickle.loads(dumps_by_value(value, files))


@pytest.mark.parametrize(
    "array",
    [BIG, BIG.reshape(64, -1).T, BIG.reshape(64, -1)[:, ::-1], BIG.astype("M8[s]"), np.repeat(BIG, 2)[::2]],
    ids=["C", "F", "strided", "dates", "gaps"],
)
def test_a_large_array_comes_back_equal_from_a_file(array: Any) -> None:
    files = ArrayFiles()
    back = sent({"a": array}, files)["a"]
    assert type(back) is np.ndarray and back.dtype == array.dtype and np.array_equal(back, array)
    assert len(dumps_by_value(array, files)) < 1000
    back[0] = back[1]  # private
    assert np.array_equal(sent(array, files), array)
    files.remove()


def test_an_array_is_written_once_and_its_file_removed() -> None:
    files = ArrayFiles()
    sent([BIG, BIG], files)
    sent(BIG, files)
    folder = files._folder
    assert folder is not None
    assert [path.name for path in folder.iterdir()] == ["0.npy"]
    files.remove()
    assert not folder.exists()
    sent(BIG, files)
    folder = files._folder
    assert folder is not None
    del files
    gc.collect()
    assert not folder.exists()


def test_small_arrays_and_arrays_of_objects_are_pickled() -> None:
    files = ArrayFiles()
    for value in (BIG[1:], np.array([None] * LARGE), np.ma.masked_array(BIG)):
        assert len(dumps_by_value(value, files)) > 1000
    assert files._folder is None


class Holder(CodedEnv):
    """Holds an array."""

    def __init__(self, array: Any) -> None:
        super().__init__(0)
        self.array = array

    def is_mapped(self) -> bool:
        base = self.array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        return isinstance(base, np.memmap)

    def total(self) -> float:
        return float(self.array.sum())


def test_workers_map_what_their_factories_hold_until_they_are_closed() -> None:
    array = BIG
    vec = ProcVecEnv([lambda: Holder(array)] * 3, num_workers=2)
    try:
        assert vec.call("is_mapped") == [True] * 3 and vec.call("total") == [BIG.sum()] * 3
        folder = vec._files._folder
        assert folder is not None and len(list(folder.iterdir())) == 1
    finally:
        vec.close()
    assert not folder.exists()


def test_prices_reach_workers_as_one_mapped_history() -> None:
    prices = 1.0 + np.arange(LARGE // 2) % 7
    vec = sekai.make_vec("Trading-v0", 2, vectorization_mode="proc", prices=prices)
    try:
        folder = vec._files._folder  # type: ignore[attr-defined]
        written = sorted(path.stat().st_size for path in folder.iterdir())
        # prices of 8 bytes and returns of 4, once for both workers; the header has 128
        assert written == [4 * (len(prices) - 1) + 128, 8 * len(prices) + 128]
        result = vec.reset(options={"start": 40})
        assert result.infos[1]["price"] == prices[40]
    finally:
        vec.close()
