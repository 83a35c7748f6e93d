"""Rules do to a sample, in which nobody has a name, what they do to the requests that it was made of."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from limen.apps.judge import judge
from limen.engine.sampler import Heard
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.sim.blind import literals_of
from limen.sim.chunk import encode
from limen.sim.fields import headers_of
from limen.sim.preview import Traced, compare
from limen.sim.pseudonyms import Pseudonyms

SECRET = b"a secret of sixteen or more"
AT_US = 1_750_000_000_000_000

BEFORE = [{"id": "r0", "match": {"header": {"x-tier": "gold"}}, "limit": "4/minute"}]
MATCHES: list[dict[str, Any]] = [
    {"client": "acme"}, {"client": ["other", "acme"]}, {"ip": "192.0.2.0/24"},
    {"ip": ["192.0.2.7", "2001:db8:0:1::/64"]},
    {"ip": "192.0.2.0/29"}, {"ip": "2001:db8::/32"}, {"header": {"x-tier": "gold"}},
    {"header": {"X-Tier": ["free", "gold"]}},
    {"path": "/v1/**", "plan": "free"},
]  # fmt: skip
KEYS = [["client"], ["ip"], ["ip/48"], ["user"], ["header.x-tier"], ["client", "plan"]]

changes = st.fixed_dictionaries(
    {
        "match": st.sampled_from(MATCHES),
        "key_by": st.sampled_from(KEYS),
        "limit": st.sampled_from(["1/minute", "3/minute"]),
    },
    optional={
        "cost": st.just({"default": 1, "when": [{"client": "acme", "cost": 0}, {"ip": "192.0.2.0/24", "cost": 1}]})
    },
)
requests = st.builds(
    Request,
    method=st.just("GET"),
    path=st.sampled_from(["/", "/v1/a"]),
    host=st.just(""),
    client=st.sampled_from([None, "acme", "other", "third"]),
    plan=st.sampled_from([None, "free"]),
    user=st.sampled_from([None, "jo"]),
    ip=st.sampled_from(["192.0.2.7", "192.0.2.200", "198.51.100.7", "2001:db8:0:1::7", "2001:db8:0:2::7"]),
    headers=st.sampled_from([{}, {"x-tier": "gold"}, {"x-tier": "free"}]),
)


@settings(max_examples=60)
@given(changes, st.lists(st.tuples(st.integers(1, 10), requests), min_size=1, max_size=40))
def test_a_change_does_to_a_sample_what_it_does_to_the_requests(change: dict[str, Any], asked: Any) -> None:
    after = [*BEFORE, {"id": "r1", **change}]
    sets = RuleSet([Rule(**each) for each in BEFORE]), RuleSet([Rule(**each) for each in after])
    at_us, heard = AT_US, []
    for seconds, request in asked:
        at_us += seconds * 1_000_000
        kept = {name: value for name, value in request.headers.items() if name in headers_of(sets[1].rules)}
        heard.append(Heard(at_us, request._replace(headers=kept), None, None, 1.0))
    chunk, _ = encode(heard, Pseudonyms(SECRET), literals_of(sets[0].rules))
    whole = compare(*sets, [Traced(each.at_us, each.request) for each in heard])
    found = judge(SECRET, BEFORE, after, [chunk])
    assert found._replace(most=()) == whole._replace(most=())
    assert [each.newly_denied for each in found.most] == [each.newly_denied for each in whole.most]


def test_of_more_than_can_be_tried_in_time_the_newest_are_tried() -> None:
    heard = [
        Heard(AT_US + number * 10_000, Request(client=f"c{number % 9}"), None, None, 1.0) for number in range(5000)
    ]
    chunk, _ = encode(heard, Pseudonyms(SECRET), {})
    found = judge(SECRET, [], [{"id": "r", "limit": "1/minute"}], [chunk], budget_s=1e-6)
    assert found.requests == 2000
    assert found.until == heard[-1].at_us / 1_000_000
