"""A TCP proxy that does to a connection what networks do.

    client ⇄ Door ⇄ Visit(Pipe questions →, Pipe ← replies) ⇄ target        all under one Weather

`Weather` says what is done to bytes now, `Door` who gets in, a `Visit` is one connection and its two pipes.
"""

from limen.testing.proxy.proxy import FaultProxy

__all__ = ["FaultProxy"]
