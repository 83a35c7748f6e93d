"""The wheel that users would install, and programs that run on it with less installed than there is here."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMITED = Path(__file__).with_name("limited.py")
PATIENCE_S = 60

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """Built as a user's installer builds it, with what the registry has for that."""
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(_builder(folder), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("limen-*.whl")
    with zipfile.ZipFile(file) as opened:
        yield opened


def _builder(folder: Path) -> list[str]:
    uv = ROOT / ".tools" / "bin" / "uv"
    if uv.exists():
        return [str(uv), "build", "--wheel", "--out-dir", str(folder), str(ROOT)]
    python = sys.executable if find_spec("pip") else str(Path(sys.base_prefix) / "bin" / "python3")
    return [python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]


@pytest.fixture(scope="session")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is unpacked in."""
    folder = tmp_path_factory.mktemp("installed")
    wheel.extractall(folder)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """`run(code)`: as a program on the wheel, with only what `limen` requires by itself.

    `run(code, without=["sqlalchemy"])`: with everything but these. Further arguments are `sys.argv`.
    """

    def go(code: str, *arguments: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-W", "error", str(LIMITED), str(installed), ",".join(without), *arguments]
        return subprocess.run(
            command, input=code, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    return go
