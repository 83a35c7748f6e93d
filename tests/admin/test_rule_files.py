import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from limen.admin.rule_files import FileWatcher
from limen.errors import RuleError, RulesUnavailable, SettingsError
from limen.rules.ruleset import RuleSet

Until = Callable[[Callable[[], object]], Awaitable[None]]


def document(*limits: int) -> str:
    return "rules:\n" + "".join(f"  - id: r{index}\n    limit: {n}/minute\n" for index, n in enumerate(limits))


def write(path: Path, text: str) -> None:
    """In one step, as nobody ever sees half of it."""
    other = path.with_name("being-written")
    other.write_text(text)
    other.rename(path)


def put_in_place(path: Path, text: str) -> None:
    """By renaming, with the time that the old file had."""
    other = path.with_name("new.yaml")
    other.write_text(text)
    found = path.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.rename(path)


class Process:
    def __init__(self, path: Path) -> None:
        self.rulesets: list[RuleSet] = []
        self.errors: list[Exception] = []
        self.watcher = FileWatcher(
            path.as_uri(), self.rulesets.append, on_error=self.errors.append, interval_s=0.01, now=lambda: 7.5
        )

    @property
    def limits(self) -> list[int]:
        return [rule.limit.capacity for rule in self.rulesets[-1].rules if rule.limit]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my rules.yaml"
    path.write_text(document(10))
    return path


@pytest.fixture
async def process(path: Path) -> AsyncIterator[Process]:
    process = Process(path)
    async with process.watcher:
        await process.watcher.first_load(10)
        yield process


def test_the_first_load_brings_what_is_there(process: Process, path: Path) -> None:
    assert process.limits == [10]
    assert process.watcher.revision == process.rulesets[0].revision == path.stat().st_mtime_ns // 1000
    assert process.watcher.last_reload == 7.5


async def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(
    process: Process, path: Path, until: Until
) -> None:
    write(path, document(20, 30))
    await until(lambda: process.limits == [20, 30])
    write(path, document(40))
    await until(lambda: process.limits == [40])
    assert len(process.rulesets) == 3


async def test_a_file_put_in_place_by_renaming_is_read_even_with_the_same_time_and_size(
    process: Process, path: Path, until: Until
) -> None:
    put_in_place(path, document(99))
    await until(lambda: process.limits == [99])


async def test_a_link_that_is_pointed_elsewhere_is_read_again(tmp_path: Path, until: Until) -> None:
    for name, limit in (("v1", 1), ("v2", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules.yaml").write_text(document(limit))
    (tmp_path / "data").symlink_to("v1")
    process = Process(tmp_path / "data" / "rules.yaml")
    async with process.watcher:
        await process.watcher.first_load(10)
        (tmp_path / "next").symlink_to("v2")
        (tmp_path / "next").rename(tmp_path / "data")
        await until(lambda: process.limits == [2])


@pytest.mark.parametrize(
    "bad",
    [
        "", "rules:", "rules: [", "rules:\n  - id: a\n", "rules:\n  - id: a\n    limit: 10/fortnight\n",
        document(1) + document(2), "rules:\n  - {id: a, limit: 1/s}\n  - {id: a, limit: 2/s}\n", "\x00",
        "x" * 2_000_000,
    ],
    ids=range(9),
)  # fmt: skip
async def test_RU_07_a_bad_file_leaves_the_good_set_in_force_until_it_is_mended(
    bad: str, process: Process, path: Path, until: Until
) -> None:
    write(path, bad)
    await until(lambda: len(process.errors) >= 2)
    assert process.limits == [10]
    assert isinstance(process.watcher.last_error, RuleError)
    assert str(path) in str(process.watcher.last_error)
    write(path, document(5))
    await until(lambda: process.limits == [5] and process.watcher.last_error is None)


async def test_a_file_that_is_gone_leaves_the_good_set_in_force(process: Process, path: Path, until: Until) -> None:
    os.unlink(path)
    await until(lambda: process.errors)
    assert isinstance(process.errors[0], RulesUnavailable)
    assert process.limits == [10]
    write(path, document(7))
    await until(lambda: process.limits == [7])


async def test_RU_08_a_file_is_left_alone_until_it_comes_to_rest(path: Path) -> None:
    watcher = FileWatcher(path.as_uri(), lambda rules: None, on_error=lambda error: None)
    assert await watcher.look()
    await watcher.load_now()
    loaded = await watcher.look()
    half = document(20, 30)[:-30]
    write(path, half)
    assert await watcher.look() == loaded, "it has only just changed"
    write(path, half + "   ")
    assert await watcher.look() == loaded, "it is still being written"
    assert await watcher.look() != loaded


async def test_RU_08_files_beside_it_are_not_read(process: Process, path: Path, until: Until) -> None:
    for name in (f".{path.name}.swp", f"{path.name}~", f"#{path.name}#"):
        write(path.with_name(name), "not: rules")
    write(path, document(11))
    await until(lambda: process.limits == [11])
    assert process.errors == []


@pytest.mark.parametrize("url", ["file://rules.yaml", "file:///", "rules.yaml", "http://localhost/rules.yaml", "file:"])
def test_what_is_not_a_local_file_is_refused_with_advice(url: str) -> None:
    with pytest.raises(SettingsError, match="file:///"):
        FileWatcher(url, lambda rules: None, on_error=lambda error: None)
