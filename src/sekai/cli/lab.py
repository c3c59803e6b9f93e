"""`sekai lab`: the page of `sekai.lab`, served on this machine."""

from __future__ import annotations


def lab(port: int, *, browser: bool) -> None:
    """Serve the lab until it is interrupted.

    Raises:
        ImportError: the extra is not installed.
        ValueError: the port cannot be used.
    """
    from sekai.lab.server import serve

    serve(port, lambda url: print(f"sekai lab: {url} (Ctrl-C ends it)", flush=True), browser=browser)
