"""A page that no request for it has begun, as where a tab comes back, and jobs of a tab."""

from __future__ import annotations

import threading

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.models import ImportedStyleSheet
from panel.io.state import set_curdoc

from sekai.lab.jobs import Jobs
from sekai.lab.page import Page
from sekai.lab.parts import LabDesign
from sekai.lab.server import free_port, serve


@pytest.fixture
def design() -> object:
    """The lab's design is Panel's default while a test runs."""
    before, pn.config.design = pn.config.design, LabDesign
    yield
    pn.config.design = before


@pytest.mark.usefixtures("design")
def test_styles_come_from_the_server_even_where_no_request_has_begun_the_session() -> None:
    document = Document()
    with set_curdoc(document):
        page = Page(lambda enter: None)
        page.template.server_doc(document)
    page.close()
    page.join(60.0)
    sheets = {sheet.url for root in document.roots for sheet in root.select({"type": ImportedStyleSheet})}
    assert len(sheets) > 3
    assert [url for url in sheets if not url.startswith("static/extensions/panel/")] == []


def test_jobs_are_done_in_order_and_answered_on_the_page() -> None:
    answers: list[object] = []
    arrived = threading.Event()
    jobs = Jobs(lambda answer: (answer(), answers and answers[-1] == "end" and arrived.set()))
    jobs.submit(lambda: 1, answers.append, answers.append)
    jobs.submit(lambda: 1 / 0, answers.append, lambda error: answers.append(type(error)))
    jobs.submit(lambda: "end", answers.append, answers.append)
    assert arrived.wait(60)
    jobs.close(lambda: None)
    jobs.join(60)
    assert answers == [1, ZeroDivisionError, "end"]
    assert jobs.idle


def test_a_closed_page_gets_no_answer_and_its_last_job_comes_after_the_one_under_way() -> None:
    began, go = threading.Event(), threading.Event()
    done: list[str] = []
    jobs = Jobs(lambda answer: done.append("answered"))

    def slow() -> None:
        began.set()
        assert go.wait(60)
        done.append("slow")

    jobs.submit(slow, done.append, done.append)
    jobs.submit(lambda: done.append("left out"), done.append, done.append)
    assert began.wait(60)
    jobs.close(lambda: done.append("closed"))
    go.set()
    jobs.join(60)
    assert done == ["slow", "closed"]


def test_what_closing_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs(lambda answer: None)
    jobs.close(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    jobs.join(60)
    assert "closing the environments of a tab failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_port_that_is_taken_is_refused() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"^port {port} cannot be used \(.+\); give another, or 0 for any\.$"):
            serve(port, print, browser=False)
    with pytest.raises(ValueError, match=r"^port is 65536; expected 0 to 65535\.$"):
        free_port(65536)
    assert 0 < free_port(0) < 65536
