"""The answer to a rule that was put, or would have been."""

from __future__ import annotations

from limen.admin.bodies import rule_body
from limen.admin.http_io import answer
from limen.admin.service import PutRule
from limen.errors import MissingExtra

try:
    from fastapi import Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["put_reply"]


def put_reply(put: PutRule, dry_run: bool) -> Response:
    """201 when the rule was not there before, else 200, with its version as ETag; of a dry run what would be, and what
    the guard says of it.
    """
    rule, warnings = put.rule, {"warnings": list(put.edited.warnings)} if put.edited.warnings else {}
    if dry_run:
        review = put.edited.review
        preview = {} if review is None else {"preview": review.to_document()}
        return answer({**rule_body(rule), "dry_run": True, **preview, **warnings})
    return answer({**rule_body(rule), **warnings}, 201 if put.created else 200, {"ETag": f'"{rule.version}"'})
