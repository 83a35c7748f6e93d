"""One server process."""

from __future__ import annotations

import atexit
import contextlib
import signal
import socket
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from limen.errors import UsageError
from limen.testing.proxy import FaultProxy
from limen.testing.servers.firewall import Firewall
from limen.testing.servers.programs import program
from limen.testing.servers.waiting import PATIENCE_S, address_nobody_uses, port_nobody_uses, wait_for

__all__ = ["Server"]

ASK_S = 5.0
ATTEMPTS = 3
READY = b"Server initialized"
"""It logs so once it listens, before it loads what it has."""


class Server:
    """A Valkey or Redis of this test's own, which keeps nothing on disk: to ask, hang, kill, cut off and start again.

    Args:
        family: `valkey`, `redis`, or the path of a server program.
        folder: for its log; it is made.
        options: `--NAME`, `VALUE`, … as on its command line.
        port: by default one that nobody uses.
        other_ports: on which it listens too, where it is cut off as well.
        proxied: clients reach it through a `FaultProxy`, its `proxy`.
        host: where it listens.
        sentinel: it is one, and `folder / "sentinel.conf"` is its file.

    Raises:
        MissingExtra, SettingsError: there is no such program.
        AssertionError: it does not start; the message ends with its log.
    """

    def __init__(
        self,
        family: str,
        folder: Path,
        *options: str,
        port: int = 0,
        host: str = "127.0.0.1",
        sentinel: bool = False,
        other_ports: Sequence[int] = (),
        proxied: bool = False,
    ) -> None:
        self.family = family
        self.host = host
        self.port = port
        self.folder = folder
        self.other_ports = other_ports
        self.source = address_nobody_uses()
        """Where it calls other servers from."""
        self._program = program(family)
        self._sentinel = sentinel
        calling = ("--bind-source-addr", self.source, "--replica-announce-ip", host, "--protected-mode", "no")
        self._options = options if sentinel else (*calling, *options)
        self._log_from = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._firewall = Firewall()
        folder.mkdir(parents=True, exist_ok=True)
        self._opened = contextlib.ExitStack()
        self.proxy = self._in_front() if proxied else None
        self._start_somewhere()

    @property
    def public_port(self) -> int:
        """Where clients find it: its own, or that of the proxy in front of it."""
        return self.proxy.port if self.proxy else self.port

    @property
    def address(self) -> str:
        return f"{self.host}:{self.public_port}"

    @property
    def url(self) -> str:
        return f"valkey://{self.address}"

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed since. It may hang."""
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._running().pid

    def client(self, **options: Any) -> redis.Redis:
        return redis.Redis(self.host, self.port, socket_timeout=ASK_S, **options)

    def ask(self, *words: Any) -> Any:
        """Send one command. Its answer, as redis-py has it."""
        with self.client() as client:
            return client.execute_command(*words)

    def start(self) -> None:
        """Start it, empty, on its port."""
        with (self.folder / "log").open("ab") as log:
            self._log_from = log.tell()
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        _running.add(self)
        wait_for(self._accepts, f"a server on {self.host}:{self.port}: {self._last_words()}")

    def restart(self) -> None:
        """Kill it and start it again: it has forgotten everything."""
        self.kill()
        self.start()

    def hang(self) -> None:
        """It does nothing any more, and nobody is told (SIGSTOP)."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on where it was."""
        self.send_signal(signal.SIGCONT)

    def send_signal(self, number: int) -> None:
        self._running().send_signal(number)

    def partition(self) -> None:
        """Nothing gets to it or away from it, as if a cable were pulled. Needs root and iptables.

        Without these a server that is `proxied` is out of reach for clients, and for other servers that are its
        clients; those of a cluster still hear of each other, so that none is replaced.

        Raises:
            SettingsError: neither is possible.
        """
        if self.proxy and not Firewall.is_there():
            self.proxy.black_hole()
        else:
            ports = [self.port, *self.other_ports, *([self.proxy.port] if self.proxy else [])]
            self._firewall.drop(ports, self.source)

    def heal(self) -> None:
        """It can be reached again."""
        self._firewall.heal()
        if self.proxy and self.proxy.runs:
            self.proxy.heal()

    def kill(self) -> None:
        """It is gone at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None
            _running.discard(self)

    def stop(self) -> None:
        """End it for good, whatever state it is in."""
        self.heal()
        self.kill()
        self._opened.close()

    def _in_front(self) -> FaultProxy:
        """A proxy for clients, which the nodes of a cluster tell them of."""
        self.port = self.port or port_nobody_uses()
        proxy = self._opened.enter_context(FaultProxy.in_thread((self.host, self.port), host=self.host))
        if "--cluster-enabled" in self._options:
            self._options = (*self._options, "--cluster-announce-port", str(proxy.port))
        return proxy

    def _start_somewhere(self) -> None:
        """Another process may take a port first that was found by chance: then it is another port."""
        if self.port:
            return self.start()
        for _ in range(ATTEMPTS - 1):
            self.port = port_nobody_uses()
            with contextlib.suppress(AssertionError):
                return self.start()
            self.kill()
        self.port = port_nobody_uses()
        return self.start()

    def _command(self) -> list[str]:
        file = [str(self.folder / "sentinel.conf")] if self._sentinel else []
        where = [] if "--tls-port" in self._options else ["--port", str(self.port)]
        kind = ["--sentinel"] if self._sentinel else ["--save", ""]
        place = ["--bind", self.host, "--dir", str(self.folder)]
        mode, saving = (kind, []) if self._sentinel else ([], kind)
        return [self._program, *file, *where, *place, *saving, *self._options, *mode]

    def _accepts(self) -> bool:
        """Whether it came so far. It says so itself: somebody else's server may answer on the port."""
        if self._running().poll() is not None:
            raise AssertionError(f"the server ended: {self._last_words()}")
        if not self._sentinel and READY not in (self.folder / "log").read_bytes()[self._log_from :]:
            return False
        with socket.create_connection((self.host, self.port), 1):
            return True

    def _last_words(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise UsageError(f"the server on {self.address} does not run; start() it")
        return self._process


_running: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """No server outlives the tests, even if nobody stopped it."""
    for server in list(_running):
        server.stop()
