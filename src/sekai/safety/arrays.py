"""One formula for NumPy arrays and torch tensors: the functions of whichever it is given."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def namespace(*arrays: Any) -> Any:
    """The module with the functions for these arrays: torch where one of them is a tensor, else NumPy."""
    torch = sys.modules.get("torch")  # who has a tensor has loaded it
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
        return torch
    return np
