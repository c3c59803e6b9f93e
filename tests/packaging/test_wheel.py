"""The built wheel holds what it should, and works in a clean environment, away from the source."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command with no way to the source tree, and return its standard output."""
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel in it.

    The dependencies are those of the running environment, on the path after the new one's own packages. Its
    .pth files are not read there, so an editable install of the source stays out of sight.
    """
    folder = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        wheel,
        cwd=ROOT.parent,
    )
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "dependencies.pth").write_text("".join(f"{place}\n" for place in sorted(places)), encoding="utf-8")
    return python


def members(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in members(wheel)}
    assert tops == {"sekai", f"sekai_rl-{PROJECT['version']}.dist-info"}


def test_wheel_holds_every_module_and_the_type_marker(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {path.relative_to(source).as_posix() for path in (source / "sekai").rglob("*.py")}
    assert "sekai/__init__.py" in expected
    page = {path.relative_to(source).as_posix() for path in (source / "sekai" / "lab" / "web").iterdir()}
    assert {"sekai/lab/web/page.html", "sekai/lab/web/grid.js"} <= page
    assert expected | page | {"sekai/py.typed"} <= set(members(wheel))


def test_metadata_says_name_license_and_extras(wheel: Path) -> None:
    facts = metadata(wheel)
    assert facts["Name"] == "sekai-rl"
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Requires-Python"] == ">=3.11"
    assert set(facts.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_installed_package_imports_from_another_folder(clean_python: Path, tmp_path: Path) -> None:
    code = "import sekai; print(sekai.__file__); print(sekai.make('CartPole-v1').observation_space.shape)"
    place, shape = run(clean_python, "-c", code, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(clean_python.parents[1])
    assert shape == "(4,)"


def test_installed_command_lists_the_environments(clean_python: Path, tmp_path: Path) -> None:
    lines = run(clean_python.with_name("sekai"), "list", cwd=tmp_path).splitlines()
    first_words = {line.split()[0] for line in lines if line.strip()}
    assert {"CartPole-v1", "Trading-v0"} <= first_words


def test_the_clean_environment_does_not_see_the_source(clean_python: Path, tmp_path: Path) -> None:
    code = "import sys; print([p for p in sys.path if p.startswith(sys.argv[1])])"
    assert run(clean_python, "-c", code, ROOT / "src", cwd=tmp_path).strip() == "[]"
