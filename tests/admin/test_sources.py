from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from limen import AsyncLimiter
from limen.admin.repository import Repository
from limen.admin.sources import Reports
from limen.admin.stored_rules import text_of
from limen.errors import RuleError, RulesUnavailable
from limen.rules.ruleset import RuleSet

Until = Callable[[Callable[[], object]], Awaitable[None]]


def write(path: Path, text: str) -> None:
    """In one step, as nobody ever sees half of it."""
    other = path.with_name("being-written")
    other.write_text(text)
    other.rename(path)


async def test_a_limiter_has_its_rules_when_it_starts_and_follows_their_file(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "rules.yaml"
    write(path, "rules: [{id: a, limit: 1/minute}]")
    limiter = AsyncLimiter("memory://", rules=path.as_uri())
    async with limiter:
        assert (await limiter.check("acme", "a")).allowed
        assert not (await limiter.check("acme", "a")).allowed
        write(path, "rules: [{id: b, limit: 5/minute}]")
        await until(lambda: [rule.id for rule in limiter.ruleset.rules] == ["b"])


async def test_a_limiter_has_its_rules_when_it_starts_from_a_database(url: str) -> None:
    async with await Repository.open(url) as repository, repository.change() as change:
        await change.put_rule("a", text_of({"id": "a", "limit": "1/minute"}))
    limiter = AsyncLimiter("memory://", rules=url)
    async with limiter:
        assert (await limiter.check("acme", "a")).allowed
        assert limiter.ruleset.revision == 1


async def test_RU_16_a_limiter_without_its_rules_does_not_start(tmp_path: Path) -> None:
    for url in (f"file://{tmp_path}/none.yaml", f"sqlite:///{tmp_path}/none/rules.db"):
        limiter = AsyncLimiter("memory://", rules=url)
        with pytest.raises(RulesUnavailable):
            async with limiter:
                pass
    write(tmp_path / "bad.yaml", "rules: [{id: a}]")
    limiter = AsyncLimiter("memory://", rules=f"file://{tmp_path}/bad.yaml")
    with pytest.raises(RuleError, match="limit"):
        async with limiter:
            pass


def test_a_failure_is_logged_once_and_not_at_every_look(caplog: pytest.LogCaptureFixture) -> None:
    rulesets: list[RuleSet] = []
    reports = Reports(rulesets.append)
    failures = ["the database is away", "the database is away", "rule 'a' is wrong", "rule 'a' is wrong"]
    for text in failures:
        reports.report(RulesUnavailable(text))
    reports.use(RuleSet())
    reports.report(RulesUnavailable("rule 'a' is wrong"))
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "the database is away",
        "rule 'a' is wrong",
        "rule 'a' is wrong",
    ]
    assert len(rulesets) == 1
