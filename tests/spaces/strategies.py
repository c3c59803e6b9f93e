"""Random spaces for property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from sekai import spaces

shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)
boxes = st.builds(
    lambda shape, dtype, low: spaces.Box(low, low + 3, shape, dtype),
    shapes,
    st.sampled_from([np.float32, np.float64, np.int16, np.uint8]),
    st.integers(0, 4),
)
discretes = st.builds(
    lambda n, start, dtype: spaces.Discrete(n, start=start, dtype=dtype),
    st.integers(1, 5),
    st.integers(-3, 3),
    st.sampled_from([np.int64, np.int8]),
)
multi_discretes = st.builds(
    lambda nvec, start: spaces.MultiDiscrete(nvec, start=[start] * len(nvec)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(-2, 2),
)
multi_binaries = st.builds(spaces.MultiBinary, st.integers(1, 4))
masked_boxes = st.builds(
    lambda low, shape, size: spaces.MaskedBox(low, low + 2.0, shape, size),
    st.floats(-3, 3, width=32),
    shapes,
    st.integers(1, 4),
)
leaves = st.one_of(boxes, discretes, multi_discretes, multi_binaries, masked_boxes)


def nest(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Composites of `part`."""
    dicts = st.dictionaries(st.sampled_from("abc"), part, min_size=1, max_size=3).map(spaces.Dict)
    return st.one_of(dicts, st.lists(part, min_size=1, max_size=3).map(spaces.Tuple))


fixed_spaces = st.recursive(leaves, nest, max_leaves=5)
sequences = st.builds(lambda part, stack: spaces.Sequence(part, stack=stack), leaves, st.booleans())
all_spaces = st.recursive(st.one_of(leaves, sequences), nest, max_leaves=5)


def equal(a: Any, b: Any) -> bool:
    """Whether two samples (or batches) have the same structure, types, dtypes and values."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
