"""`sekai lab` without what it needs."""

from __future__ import annotations

import sys

import pytest

from sekai.cli import main


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "panel", None)
    for module in ("page", "parts"):
        monkeypatch.delitem(sys.modules, f"sekai.lab.{module}", raising=False)
    assert main(["lab", "--no-browser"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("pip install 'sekai-rl[lab]'")


@pytest.mark.parametrize("module", ["sekai.lab", "sekai.lab.server", "sekai.lab.stage", "sekai.lab.counts"])
def test_what_needs_no_page_needs_no_extra(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for extra in ("panel", "bokeh", "param", "scipy"):
        monkeypatch.setitem(sys.modules, extra, None)
    for name in [name for name in sys.modules if name.startswith("sekai.lab")]:
        monkeypatch.delitem(sys.modules, name)
    __import__(module)
