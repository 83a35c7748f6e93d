"""Logs under rules: who would have been limited, when, and under which rule."""

from __future__ import annotations

import gzip
import random
import re
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.sim.replay import compare_by_log, replay
from limen.sim.report import report_of
from limen.sim.text_report import report_lines
from tests.sim.conftest import WriteLog

LOG = Path(__file__).parents[3] / "shared" / "data" / "access.log"
LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)')
RULES = RuleSet([Rule("all", key_by=["ip"], limit="6/minute")])


def steady(ip: str, requests: int, path: str = "/") -> list[tuple[float, str, str]]:
    return [(number, ip, path) for number in range(requests)]


def test_a_report_says_who_when_and_under_which_rule(write_log: WriteLog) -> None:
    rules = RuleSet(
        [
            Rule("all", key_by=["ip"], limit="30/minute"),
            Rule("deep", match={"path": "/deep/**"}, key_by=["ip"], limit="2/minute"),
            Rule("idle", match={"path": "/never"}, limit="1/minute"),
            Rule("try", match={"path": "/deep/**"}, limit="1/minute", mode="shadow"),
        ]
    )
    log = write_log([*steady("192.0.2.1", 20), *steady("192.0.2.2", 4, "/deep/1?x=1"), (600, "192.0.2.3", "/")])
    report = report_of(replay(rules, [log]))
    assert (report["requests"], report["denied"], report["clients"], report["clients_denied"]) == (25, 2, 3, 1)
    assert (report["since"], report["until"]) == ("2025-06-15T15:06:40Z", "2025-06-15T15:16:40Z")
    by_rule = {each["rule"]: each for each in report["rules"]}
    assert [by_rule[rule]["requests"] for rule in ("all", "deep", "idle", "try")] == [25, 4, 0, 4]
    assert [by_rule[rule]["denied"] for rule in ("all", "deep", "idle", "try")] == [0, 2, 0, 0]
    assert by_rule["try"]["would_deny"] == 3
    assert by_rule["deep"]["first"] == "2025-06-15T15:06:42Z"
    assert report["most_limited"] == [{"client": "192.0.2.2", "requests": 4, "denied": 2, "rules": ("deep",)}]
    assert report["paths"] == [{"request": "GET /deep/1", "denied": 2}]
    assert sum(step["requests"] for step in report["timeline"]) == 25
    assert [(step["at"], step["by_rule"]) for step in report["timeline"] if step["denied"]] == [
        ("2025-06-15T15:06:40Z", {"deep": 2})
    ]


@pytest.mark.skipif(not LOG.exists(), reason="the sample access log is not part of the repository and is not there")
def test_ten_thousand_real_lines_are_what_a_model_says_that_shares_no_code() -> None:
    """A token bucket of 6 that gets one every ten seconds, as a few lines of arithmetic."""
    parsed = [match.groups() for line in LOG.read_text().splitlines() if (match := LINE.match(line))]
    parsed.sort(key=lambda row: datetime.strptime(row[1], "%d/%b/%Y:%H:%M:%S %z"))
    left, last = defaultdict[str, float](lambda: 6.0), dict[str, float]()
    denied, first = Counter[str](), None
    for ip, time, *_ in parsed:
        now = datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp()
        left[ip] = min(6.0, left[ip] + (now - last.get(ip, now)) / 10)
        last[ip] = now
        if left[ip] >= 1 - 1e-9:
            left[ip] -= 1
        else:
            denied[ip] += 1
            first = first or now

    tally = replay(RULES, [LOG]).tally
    assert (tally.requests, len(tally.clients)) == (10_000, 1753)
    assert tally.rules["all"].clients == denied
    assert tally.denied == denied.total() == 1648
    assert tally.rules["all"].first_us == (first or 0) * 1_000_000


def test_the_order_of_lines_and_files_makes_no_difference(write_log: WriteLog) -> None:
    lines = [(number / 3, f"192.0.2.{number % 7}", f"/{number % 5}") for number in range(900)]
    wanted = report_of(replay(RULES, [write_log(lines)]))
    shuffled = [*lines]
    random.Random(3).shuffle(shuffled)
    parts = [write_log(shuffled[at::3], f"part-{at}.log") for at in range(3)]
    found = report_of(replay(RULES, parts))
    assert {**found, "log": None} == {**wanted, "log": None}
    assert found["log"]["late"] == 0


def test_gzip_is_seen_whatever_the_name(write_log: WriteLog) -> None:
    log = write_log(steady("192.0.2.1", 50))
    log.write_bytes(gzip.compress(log.read_bytes()))
    assert replay(RULES, [log]).tally.requests == 50


def test_a_file_that_was_cut_off_is_read_to_where_it_ends(write_log: WriteLog) -> None:
    log = write_log((number, f"192.0.2.{random.Random(number).randrange(250)}", "/") for number in range(9000))
    log.write_bytes(gzip.compress(log.read_bytes())[:-2000])
    found = replay(RULES, [log])
    assert 0 < found.tally.requests < 9000
    assert found.reading.damaged[0][0] == str(log)


def test_lines_without_an_end_take_no_memory(tmp_path: Path, write_log: WriteLog) -> None:
    good = write_log(steady("192.0.2.1", 2)).read_bytes()
    (tmp_path / "odd.log").write_bytes(good + b"x" * (5 << 20) + b"\n" + good)
    found = replay(RULES, [tmp_path / "odd.log"])
    assert (found.tally.requests, found.reading.unreadable) == (4, 1)


def test_signs_of_no_encoding_are_paths_like_others(tmp_path: Path, write_log: WriteLog) -> None:
    log = write_log(steady("192.0.2.1", 3, "/caf"))
    log.write_bytes(log.read_bytes().replace(b"/caf", b"/caf\xe9"))
    assert replay(RULES, [log]).tally.requests == 3


def test_an_empty_log(write_log: WriteLog) -> None:
    report = report_of(replay(RULES, [write_log([])]))
    assert (report["requests"], report["denied_ratio"], report["timeline"]) == (0, 0, [])


def test_what_rules_look_at_and_no_line_has_is_told(write_log: WriteLog) -> None:
    rules = RuleSet(
        [
            Rule("free", match={"plan": "free"}, limit="1/minute"),
            Rule("agents", match={"header": {"user-agent": "curl"}}, key_by=["ip"], limit="1/minute"),
            Rule("fine", key_by=["ip"], limit="1/minute"),
        ]
    )
    reading = replay(rules, [write_log(steady("192.0.2.1", 3))]).reading
    assert reading.missing == {"plan": ["free"], "header.user-agent": ["agents"]}
    assert reading.by_address == {"client": ["free"]}


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.log: No such file"):
        replay(RULES, [tmp_path / "nothing.log"])


def test_progress_ends_where_the_log_ends(write_log: WriteLog) -> None:
    told: list[tuple[int, int | None]] = []
    log = write_log(steady("192.0.2.1", 5000))
    replay(RULES, [log], progress=lambda done, size: told.append((done, size)))
    assert told[-1] == (log.stat().st_size, log.stat().st_size)
    assert told == sorted(told)


def test_a_change_by_a_log(write_log: WriteLog) -> None:
    log = write_log(steady("192.0.2.1", 20))
    before = RuleSet([Rule("all", key_by=["ip"], limit="60/minute")])
    effect = compare_by_log(before, RULES, [log])
    assert (effect.requests, effect.newly_denied) == (20, 20 - 6 - 1)
    assert replay(RULES, [log], before=before).effect == effect


def test_clients_have_the_name_that_the_log_has_unless_told_otherwise(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    fields = '"method": "GET", "path": "/", "client": "acme"'
    rows = [f'{{"time": {number}, "ip": "192.0.2.{number}", {fields}}}\n' for number in range(1, 10)]
    log.write_text("".join(rows))
    rules = RuleSet([Rule("r", limit="6/minute")])
    assert replay(rules, [log]).tally.denied == 9 - 6
    assert replay(rules, [log], keyed_by="ip").tally.denied == 0


def test_a_year_fits_the_page(write_log: WriteLog) -> None:
    log = write_log([(number * 86_400, "192.0.2.1", "/") for number in range(400)])
    timeline = replay(RULES, [log]).tally.timeline
    assert 50 < len(timeline.steps()) <= 240
    assert sum(step.requests for step in timeline.steps()) == 400


def test_a_candidate_is_told_beside_the_limit_in_force(write_log: WriteLog) -> None:
    rules = RuleSet(
        [
            Rule("tighter", key_by=["ip"], limit="20/minute", candidate="6/minute"),
            Rule("looser", match={"path": "/slow"}, key_by=["ip"], limit="2/minute", candidate="100/minute"),
        ]
    )
    log = write_log([*steady("192.0.2.1", 10), *steady("192.0.2.2", 4, "/slow")])
    report = report_of(replay(rules, [log]))
    by_rule = {each["rule"]: each for each in report["rules"]}
    assert (by_rule["tighter"]["candidate_denied"], by_rule["tighter"]["candidate_allowed"]) == (10 - 6, 0)
    assert (by_rule["looser"]["candidate_denied"], by_rule["looser"]["candidate_allowed"]) == (0, 2)
    assert report["denied"] == 2
    assert "the candidate 6/minute of rule tighter would deny 4 that its limit allows" in "\n".join(
        report_lines(report)
    )
