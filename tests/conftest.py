"""What every test runs under: no window is opened, and a failing random example can be repeated."""

from __future__ import annotations

import os

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
