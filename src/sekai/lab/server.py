"""The lab as a local server: on 127.0.0.1 only, with everything that the page loads coming from there."""

from __future__ import annotations

import signal
import socket
import webbrowser
from collections.abc import Callable

ADDRESS = "127.0.0.1"
#: seconds until a tab that is gone is forgotten, and how often that is looked for
FORGOTTEN_AFTER, LOOKED_FOR_EVERY = 10.0, 1.0
#: seconds that environments have to close when the server ends
CLOSING = 5.0


def serve(port: int, ready: Callable[[str], None], *, browser: bool) -> None:
    """Serve the lab until it is interrupted.

    Args:
        port: 0 for any that is free.
        ready: told the address of the page.
        browser: whether to open it.

    Raises:
        ImportError: Panel is not installed.
        ValueError: the port is taken, or none.
    """
    import panel as pn
    from bokeh.settings import settings

    from sekai.lab.page import OPEN, new_page
    from sekai.lab.parts import LabDesign

    settings.resources = "server"  # whatever the environment says: scripts and styles come from here
    pn.extension(design=LabDesign)
    chosen = free_port(port)
    url = f"http://{ADDRESS}:{chosen}/"
    server = pn.serve(
        {"/": new_page},
        address=ADDRESS,
        port=chosen,
        websocket_origin=[f"{ADDRESS}:{chosen}"],
        title="sekai lab",
        start=False,
        show=False,
        verbose=False,
        unused_session_lifetime_milliseconds=int(1000 * FORGOTTEN_AFTER),
        check_unused_sessions_milliseconds=int(1000 * LOOKED_FOR_EVERY),
    )
    loop = server.io_loop
    signal.signal(signal.SIGTERM, lambda *_: loop.add_callback_from_signal(loop.stop))  # as Panel does for an interrupt
    server.start()
    ready(url)
    if browser:
        webbrowser.open(url)
    try:
        loop.start()
    finally:
        pages = list(OPEN)
        for page in pages:
            page.close()
        for page in pages:
            page.join(CLOSING)
        server.stop()


def free_port(port: int) -> int:
    """A port that can be listened on: the one given, or for 0 any.

    Raises:
        ValueError: it is taken, or no port.
    """
    if not 0 <= port < 65536:
        raise ValueError(f"port is {port}; expected 0 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise ValueError(f"port {port} cannot be used ({error.strerror}); give another, or 0 for any.") from None
        return int(probe.getsockname()[1])
