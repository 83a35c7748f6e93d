"""How much may be borrowed: never more than the published part of the capacity, and only where it is of use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.lease import BETA, MOST_BETA, LeaseTerms
from limen.core.loans import Claim, Loan, settle
from limen.errors import UsageError

SECOND_US = 1_000_000
terms = st.one_of(
    st.builds(LeaseTerms, ttl_us=st.integers(100_000, 2 * SECOND_US)),
    st.builds(LeaseTerms, st.integers(2, 1000), st.integers(100_000, 2 * SECOND_US)),
)


@given(terms, st.integers(0, 10**9), st.integers(1, 10_000), st.floats(0, 10**9))
def test_no_wish_goes_beyond_what_may_be_on_loan(
    lease: LeaseTerms, capacity: int, gateways: int, tokens_per_s: float
) -> None:
    wish = lease.wish(capacity, gateways, tokens_per_s)
    assert 0 <= wish <= lease.most(capacity) <= capacity * lease.beta
    assert wish != 1, "a lease of one token saves nothing"
    assert lease.size is None or wish <= lease.size


@given(st.integers(0, 10**9), st.integers(1, 10_000), st.floats(0, 10**9))
def test_without_a_size_every_gateway_can_have_its_wish_at_the_same_time(
    capacity: int, gateways: int, tokens_per_s: float
) -> None:
    lease = LeaseTerms()
    assert gateways * lease.wish(capacity, gateways, tokens_per_s) <= lease.most(capacity)


@pytest.mark.parametrize(
    ("capacity", "gateways", "wish"),
    [(20_000, 4, 150), (20_000, 1, 600), (266, 4, 0), (267, 4, 2), (66, 1, 0), (67, 1, 2), (10_000, 151, 0)],
)
def test_small_limits_lend_nothing(capacity: int, gateways: int, wish: int) -> None:
    """C < 2·G/β."""
    assert LeaseTerms().wish(capacity, gateways, 10**6) == wish


def test_a_wish_is_what_the_client_spends_while_the_lease_lasts() -> None:
    assert LeaseTerms().wish(10**6, 4, 80.0) == 80
    assert LeaseTerms(ttl_us=SECOND_US // 2).wish(10**6, 4, 80.0) == 40
    assert LeaseTerms(50).wish(1000, 4, 80.0) == 50
    assert LeaseTerms(50).wish(1000, 4, 20.0) == 20
    assert LeaseTerms().wish(10**6, 4, 0.5) == 0


def test_a_named_size_may_lend_a_tenth_and_auto_three_per_cent() -> None:
    assert (LeaseTerms().beta, LeaseTerms(50).beta) == (BETA, MOST_BETA)
    assert (LeaseTerms().most(1000), LeaseTerms(50).most(1000), LeaseTerms().most(33)) == (30, 100, 0)


@pytest.mark.parametrize("wrong", [{"size": 1}, {"size": -5}, {"ttl_us": 99_999}, {"ttl_us": 2_000_001}])
def test_terms_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        LeaseTerms(**wrong)


claims = st.builds(
    Claim,
    st.sampled_from([b"a", b"b", b"c"]),
    st.integers(1, 10),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 60),
    st.just(SECOND_US),
)
books = st.dictionaries(
    st.sampled_from([b"a", b"b", b"c"]),
    st.builds(Loan, st.integers(0, 10), st.integers(1, 50), st.integers(1, 2 * SECOND_US)),
)


@given(books, claims, st.integers(0, 2 * SECOND_US))
def test_the_books_never_believe_more_than_they_hold(loans: dict[bytes, Loan], claim: Claim, now_us: int) -> None:
    settled = settle(loans, claim, now_us)
    mine = loans.get(claim.holder)
    known = mine.tokens if mine is not None and mine.until_us > now_us and mine.number < claim.number else 0
    assert settled.kept + settled.back <= known
    on_loan = sum(loan.tokens for holder, loan in settled.others.items() if holder != claim.holder)
    assert settled.room == 0 or on_loan + settled.kept + settled.room == claim.most
    assert all(loan.until_us > now_us for loan in settled.others.values()), "what lapsed is forgotten"
