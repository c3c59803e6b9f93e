"""`python -m sekai` is `sekai`."""

from __future__ import annotations

import sys

from sekai.cli import main

if __name__ == "__main__":  # worker processes import this module again
    sys.exit(main())
