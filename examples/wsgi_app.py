"""A WSGI application whose workers and threads share one limit.

    python wsgi_app.py                                  # one process, http://localhost:8000/v1/search
    gunicorn --workers 4 --threads 8 wsgi_app:app       # 4 processes with 8 threads each, the same limit

The limiter is made once, at import. Each worker connects when it is first asked; `limiter.start()` in gunicorn's
`post_fork` does it before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from limen import Limiter, Rule

limiter = Limiter("valkey://localhost:6379", [Rule("search", limit="10/minute")], gateways=4)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    decision = limiter.check(environ["REMOTE_ADDR"], "search")
    if decision.allowed:
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-RateLimit-Remaining", str(decision.remaining))])
        return [b"found\n"]
    wait_s = -(-(decision.retry_after_ms or 0) // 1000)
    start_response(f"{decision.status} Refused", [("Content-Type", "text/plain"), ("Retry-After", str(wait_s))])
    return [b"too many requests\n"]


if __name__ == "__main__":
    from wsgiref.simple_server import make_server

    make_server("localhost", 8000, app).serve_forever()
