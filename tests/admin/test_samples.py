"""Sampled traffic in the database: the newest first, and no more than is to be kept."""

from __future__ import annotations

from limen.admin.repository import Repository


async def test_the_newest_are_read_in_the_order_of_time(url: str) -> None:
    now = [1_700_000_000.0]
    async with await Repository.open(url, now=lambda: now[0]) as repository:
        assert await repository.samples.newest(100) == []
        for number in range(5):
            await repository.samples.put("gateway", bytes([number]), 10, 3600)
            now[0] += 10
        assert await repository.samples.newest(100) == [bytes([number]) for number in range(5)]
        assert await repository.samples.newest(25) == [b"\x03", b"\x04"]
        assert await repository.samples.newest(1) == [b"\x04"], "one at least, however large"


async def test_what_is_old_is_forgotten(url: str) -> None:
    now = [1_700_000_000.0]
    async with await Repository.open(url, now=lambda: now[0]) as repository:
        await repository.samples.put("gateway", b"old", 1, 3600)
        now[0] += 3601
        for _ in range(30):
            await repository.samples.put("gateway", b"new", 1, 3600)
        assert set(await repository.samples.newest(10_000)) == {b"new"}


async def test_a_sample_is_no_change_of_rules(url: str) -> None:
    async with await Repository.open(url) as repository:
        before = await repository.revision()
        await repository.samples.put("gateway", b"chunk", 1, 3600)
        assert await repository.revision() == before
