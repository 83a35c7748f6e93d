"""What HTTP clients are told about their limits. Pure.

Dialects of the fields, several at once:

- `ietf-11`: `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11, lists of RFC 9651 Strings
- `legacy`: `X-RateLimit-Limit`, `-Remaining`, `-Reset`, the last in seconds from now
- `github`: the same three with `-Reset` as seconds since the epoch, and `-Used`, `-Resource`
- `none`: no such field

`Retry-After` belongs to no dialect: every denial has it that can be retried at all. Clients see public names of
rules only. The fields are written by f-strings: a structured-field library takes forty times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from limen.adapters.problem import Headers, Reply, problem
from limen.core.decision import Decision, Policy
from limen.errors import UsageError

__all__ = ["DEFAULT_DIALECTS", "Dialects", "denial", "dialects", "rate_fields", "retry_after_s"]

Writer = Callable[[Decision, Policy, float], Headers]
Dialects = tuple[Writer, ...]

JITTER = 0.1
PROBLEM_TYPES = "https://iana.org/assignments/http-problem-types#"


def dialects(names: Iterable[str]) -> Dialects:
    """The writers behind names of dialects.

    Raises:
        UsageError: an unknown name, or names that contradict each other.
    """
    wanted = tuple(dict.fromkeys((names,) if isinstance(names, str) else names))
    for name in wanted:
        if name not in WRITERS:
            raise UsageError(f"there is no dialect {name!r} of rate limit fields; choose from {', '.join(WRITERS)}")
    if "none" in wanted and len(wanted) > 1:
        raise UsageError("dialect 'none' stands alone; leave it out to have the others")
    if "legacy" in wanted and "github" in wanted:
        raise UsageError("dialects 'legacy' and 'github' give X-RateLimit-Reset different meanings; choose one")
    return tuple(WRITERS[name] for name in wanted if name != "none")


def rate_fields(decision: Decision, writers: Dialects, now_s: float = 0.0) -> Headers:
    """The fields that a response carries, allowed or denied; none when no limit applied.

    Args:
        now_s: seconds since the epoch, for dialects that name the moment of the reset.
    """
    policy = decision.policy
    if decision.limit is None or policy is None:
        return []
    if len(writers) == 1:
        return writers[0](decision, policy, now_s)
    return [field for write in writers for field in write(decision, policy, now_s)]


def retry_after_s(decision: Decision, jitter: float = 0.0) -> int | None:
    """Whole seconds for `Retry-After`, at least 1; None when the request was allowed or can never pass.

    Args:
        jitter: in [0, 1). Up to a tenth of the wait is added, never taken away, so that clients that were refused
            together do not come back together. Waits of less than ten seconds are told as they are: a whole second
            more would be more than a tenth.
    """
    wait_ms = decision.retry_after_ms
    if decision.allowed or wait_ms is None:
        return None
    return max(1, _seconds(wait_ms)) + int(jitter * (1 + int(wait_ms * JITTER / 1000)))


def denial(decision: Decision, writers: Dialects, *, jitter: float = 0.0, now_s: float = 0.0) -> Reply:
    """The whole response to a denied request: 429, or 503 when nobody could decide.

    It is made of the decision alone, so nothing of the request can come back in it.
    """
    fields = rate_fields(decision, writers, now_s)
    wait = retry_after_s(decision, jitter)
    if wait is not None:
        fields.append(("retry-after", str(wait)))
    name, detail = PROBLEMS[decision.standing or decision.reason]
    violated = {} if decision.policy is None else {"violated_policies": [decision.policy.name]}
    return problem(decision.status, detail, kind=PROBLEM_TYPES + name, headers=fields, **violated)


PROBLEMS: Mapping[str, tuple[str, str]] = {
    "over_limit": ("quota-exceeded", "The limit is used up for now."),
    "exceeds_capacity": ("quota-exceeded", "This request asks for more than the limit can ever allow."),
    "store_unavailable": ("temporary-reduced-capacity", "The limit cannot be checked at this moment."),
    "blocked": ("abnormal-usage-detected", "This client is blocked."),
    "block": ("abnormal-usage-detected", "This client is blocked."),
    "flag": ("quota-exceeded", "The quota is used up for now."),
}
"""What refused (an operator's word, or the reason of the decision) to its problem type and what people read."""


def _ietf(decision: Decision, policy: Policy, now_s: float) -> Headers:
    name, policy_field = _policy_field(policy)
    if decision.remaining is None:
        return [("ratelimit-policy", policy_field)]
    window_ms = _effective_window_ms(decision)
    window = "" if window_ms is None else f";t={_seconds(window_ms)}"
    return [("ratelimit", f"{name};r={decision.remaining}{window}"), ("ratelimit-policy", policy_field)]


def _effective_window_ms(decision: Decision) -> int | None:
    """How long what remains must last. A denied client is never told longer than Retry-After says."""
    if not decision.allowed and decision.retry_after_ms is not None:
        return decision.retry_after_ms
    return decision.reset_after_ms


def _legacy(decision: Decision, policy: Policy, now_s: float) -> Headers:
    fields = _counts(decision)
    if decision.reset_after_ms is not None:
        fields.append(("x-ratelimit-reset", str(_seconds(decision.reset_after_ms))))
    return fields


def _github(decision: Decision, policy: Policy, now_s: float) -> Headers:
    fields = _counts(decision)
    if decision.reset_after_ms is not None:
        fields.append(("x-ratelimit-reset", str(_seconds(int(now_s * 1000) + decision.reset_after_ms))))
    if decision.limit is not None and decision.remaining is not None:
        fields.append(("x-ratelimit-used", str(max(0, decision.limit - decision.remaining))))
    fields.append(("x-ratelimit-resource", _plain(policy.name)))
    return fields


def _counts(decision: Decision) -> Headers:
    fields = [("x-ratelimit-limit", str(decision.limit))]
    if decision.remaining is not None:
        fields.append(("x-ratelimit-remaining", str(decision.remaining)))
    return fields


WRITERS: Mapping[str, Writer] = {
    "ietf-11": _ietf,
    "legacy": _legacy,
    "github": _github,
    "none": lambda decision, policy, now_s: [],
}
DEFAULT_DIALECTS = ("ietf-11", "legacy")


@lru_cache(maxsize=4096)
def _policy_field(policy: Policy) -> tuple[str, str]:
    """The policy's name as an RFC 9651 String, and the whole policy as a member of a List."""
    escaped = _plain(policy.name).replace("\\", "\\\\").replace('"', '\\"')
    window = "" if policy.window_s is None else f";w={policy.window_s}"
    return f'"{escaped}"', f'"{escaped}";q={policy.quota}{window}'


def _plain(name: str) -> str:
    """A name without what a field value cannot hold. Rules refuse such names; a Policy made by hand may have one."""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in name)


def _seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1000)
