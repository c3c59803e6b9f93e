"""Fast workers: the fork server imports what the tests need once, before the first worker is forked from it."""

from __future__ import annotations

import multiprocessing

multiprocessing.set_forkserver_preload(["sekai", "sekai.collect", "tests.collect.envs"])
