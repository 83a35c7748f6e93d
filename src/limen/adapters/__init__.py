"""Other people's protocols: HTTP fields and problems, ASGI, a reverse proxy, a check API, metrics."""
