"""Promises about leases. A store that has no `borrow` lends nothing, and keeps them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fractions import Fraction
from functools import wraps
from itertools import count

from limen.core.limit import Limit
from limen.core.loans import Claim
from limen.stores.base import Borrow, Lent
from limen.testing.conformance.limits import DAY_US, US
from limen.testing.conformance.promise import Broken, Check, Promises, expect, where_it_can
from limen.testing.conformance.trial import Trial

__all__ = ["promises"]

promises = Promises()

SLOW = Limit(1000, Fraction(1000 * US, 100 * DAY_US))
"""For which the seconds that a test takes make no difference."""
MOST = 30
TTL_US = 20 * US
numbers = count(1)


def lends(check: Callable[[Trial, Gateways], Awaitable[None]]) -> Check:
    """For stores that do."""

    @where_it_can("borrow")
    @wraps(check)
    async def with_gateways(trial: Trial) -> None:
        await check(trial, Gateways(trial))

    return with_gateways


class Gateways:
    """Some gateways that lend from one bucket."""

    def __init__(self, trial: Trial) -> None:
        self.op = trial.op(SLOW, 0)
        self._trial = trial

    def question(self, name: str, want: int, left: int = 0, back: int = 0, most: int = MOST, late: int = 0) -> Borrow:
        """`late`: by how many questions it was overtaken."""
        holder = name.encode().ljust(8, b".")
        return Borrow(self.op._replace(cost=want), Claim(holder, next(numbers) - late, left, back, most, TTL_US))

    async def borrow(self, name: str, want: int, **claim: int) -> tuple[int, int]:
        """Tokens lent, and tokens kept."""
        lent: object = await self._trial.borrow(self.question(name, want, **claim))
        if type(lent) is not Lent:
            raise Broken(f"borrow answers with Lent, not {lent!r}")
        return lent.tokens, lent.kept

    async def left(self) -> int:
        """Whole tokens in the bucket."""
        (left,) = await self._trial.left(self.op)
        return left

    async def take(self, cost: int) -> None:
        await self._trial.take(self.op._replace(cost=cost))


@promises.add("what is lent has left the bucket")
@lends
async def leaves_the_bucket(trial: Trial, gateways: Gateways) -> None:
    expect(await gateways.borrow("a", 20), (20, 0), "lent of 1000, and kept")
    expect(await gateways.left(), 980, "left after it")


@promises.add("no more is on loan than may be, all gateways together")
@lends
async def lends_no_more(trial: Trial, gateways: Gateways) -> None:
    lent = [(await gateways.borrow(name, 20))[0] for name in ("a", "b", "c")]
    expect(lent, [20, 10, 0], f"lent to three gateways that want 20, where {MOST} may be on loan")
    expect(await gateways.left(), 970, "left after it")


@promises.add("what a gateway has spent of its lease makes room, and what it keeps does not")
@lends
async def makes_room(trial: Trial, gateways: Gateways) -> None:
    await gateways.borrow("a", MOST)
    expect(await gateways.borrow("a", MOST, left=10), (20, 10), "lent to one that has 10 of 30 left, and kept")
    expect(await gateways.borrow("b", MOST), (0, 0), "lent to another one then")
    expect(await gateways.borrow("a", 0, left=5), (0, 5), "lent to the first, which has 5 left and wants none")
    expect(await gateways.borrow("b", MOST), (25, 0), "lent to the other one then")


@promises.add("what is given back is there again, once, and no more than was lent")
@lends
async def takes_back(trial: Trial, gateways: Gateways) -> None:
    await gateways.take(500)
    await gateways.borrow("a", MOST)
    await gateways.borrow("a", 0, back=12)
    expect(await gateways.left(), 482, "left after 500 were taken, 30 lent and 12 given back")
    await gateways.borrow("a", MOST)
    for _ in range(2):
        await gateways.borrow("a", 0, back=1000)
        expect(await gateways.left(), 482, "left after 30 were lent and 1000 given back")
    await gateways.borrow("b", 0, back=100)
    expect(await gateways.left(), 482, "left after somebody who was lent nothing gave back 100")


@promises.add("a lease is on loan until its end, and then it is neither kept nor given back", moves_time=True)
@lends
async def ends(trial: Trial, gateways: Gateways) -> None:
    await gateways.borrow("a", MOST)
    trial.advance(TTL_US - 1)
    expect((await gateways.borrow("b", MOST))[0], 0, "lent to another one a microsecond before the end")
    trial.advance(1)
    left = await gateways.left()
    expect(await gateways.borrow("a", 0, left=10, back=10), (0, 0), "lent and kept at the end")
    expect(await gateways.left(), left, "left when 10 are given back at the end")
    expect((await gateways.borrow("b", MOST))[0], MOST, "lent to another one then")


@promises.add("a lease that is taken anew lasts anew, with what is left of it", moves_time=True)
@lends
async def lasts_anew(trial: Trial, gateways: Gateways) -> None:
    await gateways.borrow("a", MOST)
    for _ in range(2):
        trial.advance(TTL_US - 1)
        expect(await gateways.borrow("a", 0, left=MOST), (0, MOST), "lent and kept a microsecond before the end")
    expect((await gateways.borrow("b", MOST))[0], 0, "lent to another one then")


@promises.add("a question about a lease that arrives after a newer one changes nothing")
@lends
async def ignores_late_questions(trial: Trial, gateways: Gateways) -> None:
    await gateways.borrow("a", 10)
    await gateways.borrow("a", 10, left=2)
    left = await gateways.left()
    expect((await gateways.borrow("a", 10, left=9, back=9, late=2))[0], 0, "lent for a question that was overtaken")
    expect(await gateways.left(), left, "left after it")
    expect((await gateways.borrow("b", MOST))[0], 18, "lent to another one, while 12 of 30 are on loan")


@promises.add("at most half of what is there is lent")
@lends
async def lends_half(trial: Trial, gateways: Gateways) -> None:
    await gateways.take(995)
    expect((await gateways.borrow("a", MOST))[0], 2, "lent where 5 are there")


@promises.add("granted tokens are not lent")
@lends
async def lends_no_grants(trial: Trial, gateways: Gateways) -> None:
    await gateways.take(1000)
    await trial.grant(gateways.op, 50, DAY_US)
    expect((await gateways.borrow("a", MOST))[0], 0, "lent where nothing is there but 50 that were granted")
    expect(await gateways.left(), 50, "left after it")


@promises.add("gateways that borrow at the same moment get no more than may be on loan")
@lends
async def lends_in_turn(trial: Trial, gateways: Gateways) -> None:
    questions = [gateways.question(f"gw {number}", 4) for number in range(16)]
    total = sum(each.tokens for each in await trial.at_once("borrow", questions))
    expect(0 < total <= MOST, True, f"whether {total} may be lent to 16 gateways, where {MOST} may be on loan")
    expect(await gateways.left() <= 1000 - total, True, "whether all that has left the bucket")
