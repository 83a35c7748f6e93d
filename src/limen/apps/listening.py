"""Sockets to listen on."""

from __future__ import annotations

import errno
import socket

from limen.apps.settings import Listen
from limen.errors import SettingsError

__all__ = ["bound"]


def bound(listen: Listen) -> socket.socket:
    """A listening socket.

    Raises:
        SettingsError: the port is taken, or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((listen.host, listen.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise SettingsError(_why_not_bound(listen, error)) from error
    listener.setblocking(False)
    return listener


def _why_not_bound(listen: Listen, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {listen.port} on {listen.host} is taken by another program; stop it or choose another port"
    if error.errno == errno.EACCES:
        return f"port {listen.port} needs more rights than this process has; choose one above 1023"
    return f"cannot listen on {listen.host} port {listen.port}: {error.strerror}"
