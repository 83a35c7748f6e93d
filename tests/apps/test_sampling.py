"""The sample of a process: who samples nothing pays nothing, and what cannot be kept is counted and no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from limen import AsyncLimiter, Request, Rule
from limen.admin.repository import Repository
from limen.admin.service import nobody
from limen.admin.standing_service import StandingService
from limen.apps.backend import Backend
from limen.apps.judging import Judging
from limen.apps.sampling import Sampling, sampler_for
from limen.apps.settings import Shared
from limen.engine.sampled import SampledLimiter
from limen.errors import RulesUnavailable, SettingsError, UsageError
from limen.rules.ruleset import RuleSet
from limen.sim.pseudonyms import Pseudonyms

NAMES = Pseudonyms(b"a secret of sixteen or more")
BEFORE, AFTER = RuleSet([Rule("all", limit="1000/day")]), RuleSet([Rule("all", limit="1/day burst 2")])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rules.db'}"


class Away:
    """A database that does not answer."""

    async def put(self, gateway: str, chunk: bytes, rows: int, keep_s: float) -> None:
        raise RulesUnavailable("nobody answers")


def sampled(rules: RuleSet = BEFORE) -> SampledLimiter:
    return SampledLimiter(sampler_for(NAMES, 1.0), "memory://", rules)


@pytest.mark.parametrize(("percent", "kind"), [(0, AsyncLimiter), (1, SampledLimiter)])
async def test_who_samples_nothing_has_a_limiter_that_knows_nothing_of_it(url: str, percent: float, kind: type) -> None:
    backend = Backend(Shared(store="memory://", rules_db=url, sample_percent=percent))
    assert type(backend.trial()) is kind
    await backend.repository.close()


@pytest.mark.parametrize("setting", [{"sample_percent": -1}, {"sample_percent": 101}, {"sample_hours": 0}])
def test_settings_that_make_no_sense(url: str, setting: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(setting))):
        Shared(store="memory://", rules_db=url, **setting)  # type: ignore[arg-type]


async def test_what_cannot_be_kept_is_counted_and_the_next_is_kept(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with sampled() as limiter, Repository(url) as repository:
        for samples in (Away(), repository.samples):
            sampling = Sampling(limiter, samples, "gateway", NAMES, 3600)  # type: ignore[arg-type]
            await limiter.check("acme", "all")
            await sampling.once()
        assert (limiter.sampler.heard_total, limiter.sampler.failed_total) == (2, 1)
        assert len(await repository.samples.newest(10)) == 1
    assert "traffic is not sampled" in caplog.text


async def test_a_judge_knows_what_single_clients_have(url: str) -> None:
    async with sampled() as limiter, await Repository.open(url) as repository:
        async with repository.change() as change:
            await change.put_rule("all", '{"id": "all", "limit": "1000/day"}')
        names = Pseudonyms((await repository.secrets()).current)
        for number in range(8):
            await limiter.check_request(Request(client=("acme", "other")[number % 2]))
        await Sampling(limiter, repository.samples, "gateway", names, 3600).once()
        effect = await Judging(repository)(BEFORE, AFTER)
        assert effect is not None
        assert (effect.requests, effect.denied_before, effect.newly_denied) == (8, 0, 4)

        await StandingService(repository, nobody).put_override("all", "client", "acme", {"limit": "1/day burst 3"})
        effect = await Judging(repository)(BEFORE, AFTER)
        assert effect is not None
        assert (effect.requests, effect.denied_before, effect.newly_denied) == (8, 1, 2)


async def test_without_a_sample_there_is_no_judgement(url: str) -> None:
    async with await Repository.open(url) as repository:
        assert await Judging(repository)(BEFORE, AFTER) is None


async def test_a_sample_that_cannot_be_read_is_an_error_that_says_so(url: str) -> None:
    async with await Repository.open(url) as repository:
        await repository.samples.put("gateway", b"not a chunk", 1, 3600)
        with pytest.raises(UsageError, match=r"could not be replayed: .*a chunk of the sample"):
            await Judging(repository)(BEFORE, AFTER)


async def test_a_judge_without_the_secret_of_the_gateways_says_which_it_needs(url: str) -> None:
    async with sampled() as limiter, await Repository.open(url) as repository:
        await limiter.check("acme", "all")
        await Sampling(limiter, repository.samples, "gateway", NAMES, 3600).once()
        with pytest.raises(UsageError, match="under another secret; set LIMEN_SECRET"):
            await Judging(repository)(BEFORE, AFTER)


async def test_a_judge_holds_nobody_up(url: str) -> None:
    """While a large sample is replayed the event loop answers others."""
    async with sampled() as limiter, await Repository.open(url) as repository:
        names = Pseudonyms((await repository.secrets()).current)
        sampling = Sampling(limiter, repository.samples, "gateway", names, 3600)
        for _ in range(2):
            for number in range(2000):
                limiter.sampler.asked(
                    Request(path=f"/{number}", client=f"client-{number % 500}"), await _decision(limiter)
                )
            await sampling.once()
        judging = asyncio.create_task(Judging(repository)(BEFORE, AFTER))
        answered = 0
        while not judging.done():
            await asyncio.sleep(0)
            answered += 1
        effect = await judging
        assert effect is not None
        assert (effect.requests, effect.clients) == (4000, 500)
        assert answered > 100


async def _decision(limiter: SampledLimiter) -> object:
    return await AsyncLimiter.check_request(limiter, Request(path="/", client="nobody"))
