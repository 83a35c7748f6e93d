"""A FastAPI app with its rules in a file that may be edited while it runs.

uvicorn examples.fastapi_app:app --no-proxy-headers
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from limen import AsyncLimiter
from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.identity import ApiKeyIdentity

RULES = Path(__file__).with_name("rules.yaml").resolve()
limiter = AsyncLimiter(environ.get("LIMEN_STORE", "memory://"), RULES.as_uri())


class Keys:
    """Who an API key is: client, plan, user."""

    def find(self, api_key: str, /) -> tuple[str, str, None] | None:
        return {"acme-key-1": ("acme", "free", None)}.get(api_key)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with limiter:
        yield


app = FastAPI(lifespan=lifespan)
app.add_middleware(RateLimitMiddleware, limiter=limiter, identify=ApiKeyIdentity(Keys()), exempt=["/healthz"])


@app.get("/v1/search/{words}")
async def search(words: str) -> dict[str, Any]:
    return {"found": [], "words": words}
