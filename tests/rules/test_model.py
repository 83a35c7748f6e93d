"""A rule is checked as a whole: every problem, each with its field."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.core.decision import Policy
from limen.core.limit import Limit
from limen.errors import RuleError, UsageError
from limen.rules.cost import check_cost
from limen.rules.model import Rule
from limen.rules.path import canonical_path, segments_of
from limen.rules.request import Request


def make(**fields: Any) -> Rule:
    return Rule(fields.pop("id", "search"), **{"limit": "100/minute", **fields})


def problems(**fields: Any) -> list[tuple[str | None, str]]:
    with pytest.raises(RuleError) as caught:
        make(**fields)
    assert all(problem.rule == str(fields.get("id", "search")) for problem in caught.value.problems)
    return [(problem.field, problem.message) for problem in caught.value.problems]


def test_what_is_left_out_has_the_documented_default() -> None:
    rule = make()
    assert (rule.key_by, rule.mode, rule.on_failure, rule.rollout, rule.cost.default) == (
        ("client",), "enforce", "open", 100, 1,
    )  # fmt: skip
    assert rule.policy == Policy("search", 100, 60)
    assert rule.key(Request(client="acme"), []) == "client=acme"


@pytest.mark.parametrize("rule_id", ["a", "0", "a.b_c-d", "a" * 63])
def test_an_id(rule_id: str) -> None:
    assert make(id=rule_id).id == rule_id


@pytest.mark.parametrize("rule_id", ["", "A", "-a", ".a", "a b", "a" * 64, "ä", "a\n", 5, None, ["a"]])
def test_what_is_no_id_is_refused(rule_id: Any) -> None:
    ((field, message),) = problems(id=rule_id)
    assert field == "id"
    assert "is not an id: use 1 to 63 of a-z" in message


@pytest.mark.parametrize(
    ("fields", "field", "advice"),
    [
        ({"limit": None}, "limit", "there is no limit; write limit: 100/minute, or limit: unlimited"),
        ({"limit": 100}, "limit", "a limit is text such as '100/minute', not 100; say per which time"),
        ({"limit": False}, "limit", "a limit is text"),
        ({"limit": 0.0}, "limit", "a limit is text"),
        ({"limit": "100"}, "limit", "is not a limit"),
        ({"capacity": 5}, "limit", "give either limit, or capacity and refill_per_sec, not both"),
        ({"limit": None, "capacity": 5}, "refill_per_sec", "refill_per_sec is missing"),
        ({"limit": None, "refill_per_sec": 5}, "capacity", "capacity is missing"),
        ({"limit": None, "capacity": 1.5, "refill_per_sec": 1}, "capacity", "must be a whole number"),
        ({"limit": None, "capacity": 5, "refill_per_sec": "1"}, "refill_per_sec", "must be a number"),
        ({"limit": None, "capacity": 5, "refill_per_sec": float("nan")}, "refill_per_sec", "not nan"),
        ({"limit": None, "capacity": 5, "refill_per_sec": -1}, "refill_per_sec", "not -1"),
        ({"limit": None, "capacity": 5, "refill_per_sec": 5e-324}, "refill_per_sec", "more than 70 years"),
        ({"match": "/v1"}, "match", "match must be a mapping"),
        ({"match": {"path": "v1"}}, "match", "a path starts with '/'"),
        ({"key_by": "client"}, "key_by", "key_by is a list such as [client], not 'client'"),
        ({"key_by": None}, "key_by", "key_by is a list"),
        ({"key_by": ["path.id"]}, "key_by", "needs match.path with a segment {id}"),
        ({"algorithm": "leaky_bucket"}, "algorithm", "'leaky_bucket' is not supported; write token_bucket"),
        ({"on_failure": "maybe"}, "on_failure", "write open or closed"),
        ({"mode": "on"}, "mode", "write enforce or shadow or off"),
        ({"mode": False}, "mode", "False is not supported"),
        ({"rollout": 101}, "rollout", "rollout is a whole per cent from 0 to 100, not 101"),
        ({"rollout": 0.5}, "rollout", "not 0.5"),
        ({"rollout": True}, "rollout", "not True"),
        ({"lease": "on"}, "lease", "'on' is not supported; write off, auto or {size: 50, ttl: 1s}"),
        ({"lease": {"size": 50}}, "lease", "more than a tenth of the capacity 100; write size: 10 or less"),
        ({"lease": {"size": 1}}, "lease", "a lease has 2 tokens or more, not 1"),
        ({"lease": {"size": 2.5}}, "lease", "the size of a lease is a whole number of tokens, not 2.5"),
        ({"lease": {"size": True}}, "lease", "not True"),
        ({"lease": {"ttl": "1s"}}, "lease", "lease has no size; write {size: 50, ttl: 1s}, or auto"),
        ({"lease": {"size": 5, "tll": 1}}, "lease", "lease has no field 'tll'; it knows size and ttl"),
        ({"lease": {"size": 5, "ttl": "3s"}}, "lease", "a lease lasts 0.1 to 2 seconds, not 3"),
        ({"lease": {"size": 5, "ttl": float("nan")}}, "lease", "a lease lasts 0.1 to 2 seconds, not nan"),
        ({"lease": {"size": 5, "ttl": "soon"}}, "lease", "is not a length of time"),
        ({"lease": "auto", "key_by": ["ip"]}, "lease", "anybody can make up ip; leases need a key_by with client"),
        ({"lease": "auto", "key_by": ["header.x-tenant"]}, "lease", "anybody can make up header.x-tenant"),
        ({"lease": "auto", "algorithm": "fixed_window"}, "lease", "a fixed_window lends nothing; use a token_bucket"),
        ({"lease": "auto", "limit": None, "capacity": 100, "refill_per_sec": 0}, "lease", "write lease: off"),
        ({"regions": "shared"}, "regions", "'shared' is not supported; write local"),
        ({"colocate": 5}, "colocate", "must be a label such as login"),
        ({"tags": "auth"}, "tags", "must be a list of texts, not 'auth'"),
        ({"tags": [1]}, "tags", "must be a list of texts"),
        ({"public_name": 'a"b'}, "public_name", "printable ASCII characters without quotes or backslashes"),
        ({"public_name": ""}, "public_name", "must be 1 to 64"),
        ({"public_name": "é"}, "public_name", "printable ASCII"),
        ({"cost": -1}, "cost", "cost must be a whole number of tokens from 0 to 1,000,000,000, not -1"),
        ({"cost": 0.5}, "cost", "not 0.5"),
        ({"cost": True}, "cost", "not True"),
        ({"cost": None}, "cost", "not None"),
        ({"cost": {"defualt": 1}}, "cost", "cost has no field 'defualt'; it knows default and when"),
        ({"cost": {"when": {"path": "/x"}}}, "cost", "cost.when is a list such as [{path: /deep, cost: 10}]"),
        ({"cost": {"when": [{"path": "/x"}]}}, "cost", "each entry of cost.when has a cost and what it matches"),
        ({"cost": {"when": [5]}}, "cost", "each entry of cost.when has a cost"),
        ({"cost": {"when": [{"path": "x", "cost": 1}]}}, "cost", "a path starts with '/'"),
        ({"cost": 101}, "cost", "a request that costs 101 can never pass a bucket of 100; raise the capacity to 101"),
        ({"cost": {"when": [{"path": "/x", "cost": 500}]}}, "cost", "a request that costs 500 can never pass"),
    ],
)
def test_a_bad_field_is_named_and_told_what_to_write(fields: dict[str, Any], field: str, advice: str) -> None:
    ((found, message),) = problems(**fields)
    assert found == field
    assert advice in message


def test_every_problem_of_a_rule_is_listed_at_once() -> None:
    found = problems(id="B", limit="5", mode="on", rollout=200, public_name="", cost=-1, tags="t")
    assert [field for field, _ in found] == ["id", "limit", "cost", "mode", "rollout", "tags", "public_name"]


def test_a_cost_equal_to_the_capacity_is_fine_and_so_is_any_cost_without_a_limit() -> None:
    assert make(cost=100).cost.default == 100
    assert make(limit="unlimited", cost=10**9).limit is None
    assert make(limit="0/minute", cost=5).limit == Limit(0, Fraction(0))


def test_a_limit_of_0_refuses_everything_and_unlimited_is_another_thing() -> None:
    for rule in (make(limit=0), make(limit="0/minute")):
        assert rule.limit == Limit(0, Fraction(0))
    assert make(limit="unlimited").limit is None
    assert make(limit="unlimited").policy is None


def test_python_may_ask_for_a_quota_that_is_spent_once() -> None:
    assert make(limit=None, capacity=5, refill_per_sec=0).limit == Limit(5, Fraction(0))


def test_the_first_special_cost_that_matches_counts() -> None:
    rule = make(
        cost={
            "default": 2,
            "when": [
                {"path": "/deep/**", "methods": ["POST"], "cost": 10},
                {"path": "/deep/**", "cost": 5},
                {"plan": "paid", "cost": 0},
            ],
        }
    )

    def cost(method: str, path: str, plan: str | None = None) -> int:
        return rule.cost_of(Request(method=method, path=path, plan=plan), segments_of(canonical_path(path)))

    assert [cost("POST", "/deep/x"), cost("GET", "//deep"), cost("GET", "/x", "paid"), cost("GET", "/x")] == [
        10,
        5,
        0,
        2,
    ]


@pytest.mark.parametrize("cost", [-1, 0.5, float("nan"), float("inf"), "2", True, None, 10**9 + 1, Fraction(1)])
def test_a_cost_that_is_no_whole_number_of_tokens_is_refused(cost: object) -> None:
    with pytest.raises(UsageError, match="cost must be a whole number of tokens"):
        check_cost(cost)


IDENTITIES = [f"client=c{number}" for number in range(2000)]


def test_a_rollout_grows_and_never_moves_a_client_out() -> None:
    before: set[str] = set()
    for per_cent in (0, 1, 10, 25, 50, 99, 100):
        covered = {identity for identity in IDENTITIES if make(rollout=per_cent).covers_key(identity)}
        assert before <= covered
        assert abs(len(covered) - 20 * per_cent) < 100
        before = covered
    assert before == set(IDENTITIES)


def test_a_rollout_is_the_same_in_every_process_and_other_for_other_rules() -> None:
    covered = [identity for identity in IDENTITIES[:40] if make(rollout=10).covers_key(identity)]
    assert covered == ["client=c10", "client=c38"]
    one, other = make(id="one", rollout=50), make(id="other", rollout=50)
    both = sum(one.covers_key(identity) and other.covers_key(identity) for identity in IDENTITIES)
    assert 350 < both < 650


@given(st.text(max_size=8))
def test_any_key_can_be_rolled_out_to(name: str) -> None:
    assert make(rollout=50).covers_key(f"client={name}") in (True, False)
    assert not make(rollout=0).covers_key(f"client={name}")


def test_a_document_holds_what_was_written_and_no_defaults() -> None:
    rule = make(match={"path": "/x"}, key_by=("client", "ip"), mode="enforce", cost=1)
    assert rule.to_document() == {
        "id": "search", "match": {"path": "/x"}, "key_by": ["client", "ip"], "limit": "100/minute",
    }  # fmt: skip
    assert rule == Rule(**rule.to_document())
    assert hash(rule) == hash(Rule(**rule.to_document()))
    assert rule != make()
    assert repr(rule).startswith("Rule(id='search', match={'path': '/x'}")


def test_a_rule_that_guards_logins_is_closed_while_the_store_is_away_and_cannot_be_open() -> None:
    assert Rule("login", limit="5/minute", tags=["auth"]).on_failure == "closed"
    assert Rule("login", limit="5/minute", tags=["auth"], on_failure="closed").on_failure == "closed"
    with pytest.raises(RuleError, match="rules with the tag 'auth' are closed while the store is away"):
        Rule("login", limit="5/minute", tags=["auth"], on_failure="open")
    assert Rule("search", limit="5/minute", tags=["authors"]).on_failure == "open"
