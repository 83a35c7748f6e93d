"""Gateway processes under load, and what they saw.

with Fleet(cluster.url, RULES, tmp_path, shards=ranges_of(cluster)) as fleet:
    fleet.load()
    fleet.more(2)                       # two seconds of load are behind us
    fleet.phase("fault"); cluster.primaries[0].kill()
    fleet.more(6)
    fleet.phase("after")
    fleet.until(lambda: all_up(fleet), "every breaker closed")
    fleet.more(2)
    seen = fleet.end()                  # a Findings; the gateways are gone
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from limen.engine.debts import GRACE_US
from tests.faults.fleet.findings import Findings, Phase, Told
from tests.faults.fleet.gateway import Gateway
from tests.faults.fleet.spec import Load, Spec
from tests.faults.fleet.watch import now_us

__all__ = ["Fleet"]

PATIENCE_S = 60.0
LOOK_S = 0.02
SETTLED_S = 2 * GRACE_US / 1_000_000


class Fleet:
    """Some gateways.

    Args:
        store: URL of the store.
        rules: arguments of `Rule`, as a mapping for each.
        folder: a place for files.
        gateways: how many processes; they are told so.
        load: what they are asked.
        shards: first slot of each shard, by its number; none for a store in one piece.
        options: more arguments of `AsyncLimiter`.
    """

    def __init__(
        self,
        store: str,
        rules: Sequence[dict[str, Any]],
        folder: Path,
        *,
        gateways: int = 4,
        load: Load | None = None,
        shards: Sequence[int] = (),
        metrics: bool = True,
        **options: Any,
    ) -> None:
        self.rules = list(rules)
        self.load_spec = load or Load()
        self._shards = shards
        self._told: list[Told] = []
        self._phases: list[Phase] = []
        self._scrapes: dict[str, list[str]] = {}
        self._folder = folder
        self._ended = False
        folder.mkdir(parents=True, exist_ok=True)
        self._store, self._metrics = store, metrics
        self._options = {"gateways": gateways, **options}
        self.gateways = [Gateway(self._spec(number)) for number in range(gateways)]

    def __enter__(self) -> Self:
        if not self._phases:
            self.all("start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for gateway in self.gateways:
            if gateway.process.poll() is None:
                gateway.kill()

    def all(self, command: str, *arguments: Any, **named: Any) -> list[Any]:
        """Give a command to all gateways that are not frozen, at the same time; their answers."""
        awake = self._awake()
        for gateway in awake:
            gateway.ask(command, *arguments, **named)
        return [gateway.answer() for gateway in awake]

    def load(self, **changes: Any) -> None:
        """Begin the load, or go on with a changed one: the fields of `Load`."""
        self.all("load", **changes)

    def rest(self) -> None:
        """End the load; returns when everybody is answered."""
        self.all("rest")

    def phase(self, name: str) -> None:
        """What follows is called so."""
        self._phases.append(Phase(name, now_us()))

    def more(self, seconds: float) -> None:
        """Until all gateways that are not frozen have lived through so much more of the load."""
        began = now_us()
        wanted = [count + seconds * self.load_spec.rate * 0.5 for count in self.all("decided")]
        self.until(
            lambda: (
                now_us() - began > seconds * 1_000_000
                and all(count >= least for count, least in zip(self.all("decided"), wanted, strict=True))
            ),
            f"{seconds} s of load",
        )

    def until(self, condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> float:
        """Look until it is so; the seconds that it took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > patience_s:
                raise AssertionError(f"in vain: {what}")
            time.sleep(LOOK_S)  # the pace of looking, not a wait for time
        return time.monotonic() - began

    def up(self) -> bool:
        """Whether every gateway that is not frozen holds every shard to be up."""
        return all(set(states.values()) <= {"up"} for states in self.all("shards"))

    def away(self) -> bool:
        """Whether every gateway that is not frozen holds some shard to be down."""
        return all("down" in states.values() for states in self.all("shards"))

    def settle(self) -> None:
        """Until gateways that returned have told each other what they admitted meanwhile: a phase of its own."""
        self.phase("settling")
        self.more(SETTLED_S)

    def report(self) -> None:
        """Let the gateways write down what they decided until now. Done by `end` at the latest."""
        awake = self._awake()
        for gateway in awake:
            gateway.ask("report")
        self._told += [Told(gateway.number, gateway.answer()) for gateway in awake]

    def scrape(self, name: str) -> None:
        """Read from each gateway what Prometheus would. Done by `end` too, as `end`."""
        self._scrapes[name] = self.all("metrics")

    def end(self) -> Findings:
        """End the load and the gateways; what they saw."""
        self.rest()
        self.scrape("end")
        self.report()
        errors = "".join(gateway.close() for gateway in self.gateways)
        return Findings(
            self.rules, self._phases, self._told, errors, self._scrapes, self._shards, self.load_spec.prefix
        )

    def _spec(self, number: int) -> Spec:
        return Spec(
            self._store, self.rules, self._options, self.load_spec, str(self._folder), number, metrics=self._metrics
        )

    def _awake(self) -> list[Gateway]:
        return [gateway for gateway in self.gateways if not gateway.frozen and gateway.process.poll() is None]

    def add(self) -> Gateway:
        """One more gateway, without load yet: `do("start")`, then `do("load")`."""
        gateway = Gateway(self._spec(len(self.gateways)))
        self.gateways.append(gateway)
        return gateway
