"""What every test runs under: no window is opened, and a failing random example can be repeated.

Beside it the Ray of those test files that only need one, see `tests.rays`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

# No deadline, since shared machines are noisy; no database, since the folder may not be writable; and in
# continuous integration the same examples in every run.
settings.register_profile(
    "sekai", deadline=None, database=None, print_blob=True, derandomize=os.environ.get("CI") == "true"
)
settings.load_profile("sekai")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--device`: where tests of tensors put them. `--screenshots`: where those of the lab put theirs."""
    parser.addoption("--device", default="cpu", help="of torch, for tests of tensor environments: cpu (default), cuda")
    parser.addoption("--screenshots", metavar="DIR", help="of the lab, for the manual: docs/images")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device that `--device` names."""
    return str(request.config.getoption("--device"))


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """A Ray on this machine for the tests of one file; they are skipped where it is not installed."""
    if sys.platform == "win32":
        pytest.skip("a Ray that ends with the tests needs POSIX")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before this process imports Ray
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=80 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    yield
    ray.shutdown()
