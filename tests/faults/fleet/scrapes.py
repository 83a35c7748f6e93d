"""What Prometheus would have read from the gateways of a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Scrapes"]


class Scrapes:
    """Metrics of all gateways at moments that have a name.

    Args:
        texts: what each gateway answered, by the name of the moment.
    """

    def __init__(self, texts: Mapping[str, Sequence[str]]) -> None:
        self._found = {name: [_samples(text) for text in each] for name, each in texts.items()}

    def values(self, name: str, moment: str, **labels: str) -> Iterator[float]:
        """Of each gateway, and each series that has these labels."""
        wanted = set(labels.items())
        for gateway in self._found[moment]:
            yield from (value for (known, has), value in gateway.items() if known == name and wanted <= has)


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
