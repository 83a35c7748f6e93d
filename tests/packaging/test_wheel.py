"""The wheel has what a user needs and asks for no more than it says."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = {"cli", "service", "postgres", "embedded", "fast", "all"}
LIGHT = {"hiredis", "pyyaml", "redis"}


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def requirements(metadata: Message) -> Iterator[tuple[str, str]]:
    """(name, marker) of each requirement."""
    for line in metadata.get_all("Requires-Dist", []):
        requirement, _, marker = line.partition(";")
        yield "".join(requirement.partition("[")[0].replace("<", ">").partition(">")[0].split()), marker


def test_it_has_the_type_marker_the_script_and_the_licence(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "limen/py.typed" in names
    script = wheel.read("limen/stores/valkey/scripts/take.lua")
    assert script == (ROOT / "src/limen/stores/valkey/scripts/take.lua").read_bytes()
    (licence,) = [name for name in names if name.endswith("/licenses/LICENSE")]
    assert b"Apache License" in wheel.read(licence)


def test_it_has_every_module_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    wanted = {
        str(file.relative_to(source))
        for file in (source / "limen").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted


def test_its_metadata_names_the_licence_the_extras_and_the_python_that_it_needs(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_without_an_extra_it_requires_three_light_libraries(metadata: Message) -> None:
    assert {name for name, marker in requirements(metadata) if "extra" not in marker} == LIGHT


def test_the_extra_all_has_everything_that_the_others_have(metadata: Message) -> None:
    found = list(requirements(metadata))
    everything = {name for name, marker in found if "'all'" in marker}
    assert everything == {name for name, marker in found if "extra" in marker}


def test_it_brings_the_command_and_the_plugin_for_pytest(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    points = wheel.read(name).decode()
    assert "[console_scripts]\nlimen = limen.apps.cli:main" in points
    assert "[pytest11]\nlimen = limen.testing.plugin" in points
