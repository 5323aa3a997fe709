"""`GET /metrics`: the counts of the server and the state of its logs, for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .. import __version__
from ..errors import MissingDependency
from ..follow import FollowerStatus
from .logs import Logs
from .metrics import Distribution, LogCounts, Metrics

if TYPE_CHECKING:
    from ..engine import Stats
    from .exchange import Service

LOOK_SECONDS = 5.0
"""A log is looked at this often at most, however often the metrics are asked for."""
PATIENCE_SECONDS = 2.0
"""A log that takes longer to answer counts as down, until it has answered."""
FOLLOWERS = 100
"""The first so many followers of a log by name have metrics of their own."""

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, Any]]


class LogState:
    """How a log is, as of the last look at it."""

    def __init__(self, name: str, logs: Logs) -> None:
        self.name = name
        self.stats: Stats | None = None
        self.followers: list[FollowerStatus] = []
        self._logs = logs
        self._looked_at = float("-inf")
        self._look_under_way: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Look at the log, unless the last look is recent. It waits for the answer, but not for long."""
        if self._look_under_way is None:
            if time.monotonic() < self._looked_at + LOOK_SECONDS:
                return
            self._look_under_way = asyncio.create_task(self._look())
        await asyncio.wait([self._look_under_way], timeout=PATIENCE_SECONDS)
        if self._look_under_way is not None:
            self.stats = None

    async def _look(self) -> None:
        try:
            store = await self._logs.store(self.name)
            stats, followers = await store.stats(), await store.followers()
        except Exception:  # noqa: BLE001 - a log that fails must not make the metrics fail
            self.stats = None
        else:
            self.stats, self.followers = stats, sorted(followers, key=lambda each: each.name)
        finally:
            self._looked_at = time.monotonic()
            self._look_under_way = None


class Scrape:
    """The metrics of an application, and the state of its logs."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.metrics: Metrics = service.metrics
        self.logs: list[LogState] = [LogState(name, service.logs) for name in service.logs.names]
        self._registry: Any = None

    async def page(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, in the form that a scraper accepts."""
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector
            from prometheus_client.exposition import choose_encoder
        except ImportError as error:
            raise MissingDependency(
                "metrics need prometheus-client, which is not installed",
                hint="pip install 'strandline[server]'",
            ) from error
        if self._registry is None:
            self._registry = CollectorRegistry()
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        await asyncio.gather(*(log.refresh() for log in self.logs))
        encode, content_type = choose_encoder(accept)
        # In a thread, because it takes some milliseconds. Requests go on and count meanwhile.
        return await asyncio.to_thread(encode, self._registry), content_type

    def describe(self) -> list[Any]:
        """Return nothing: the registry need not collect to find out which names there are."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield every metric. The registry calls it."""
        from prometheus_client import core

        kinds = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        for metric in METRICS:
            family = kinds[metric.kind](metric.name, metric.meaning, labels=metric.labels)
            for labels, value in metric.samples(self):
                if isinstance(value, Distribution):
                    family.add_metric(labels, list(_buckets(value)), value.total)
                else:
                    family.add_metric(labels, value)
            yield family


class Metric(Struct, frozen=True):
    """A metric: its name, kind, meaning and labels, and its values."""

    name: str
    kind: str
    meaning: str
    labels: Labels
    samples: Callable[[Scrape], Samples]


def _counted(value: Callable[[LogCounts], Any]) -> Callable[[Scrape], Samples]:
    def samples(scrape: Scrape) -> Samples:
        return [((log.name,), value(scrape.metrics.log(log.name))) for log in scrape.logs]

    return samples


def _state(value: Callable[[Stats], Any]) -> Callable[[Scrape], Samples]:
    def samples(scrape: Scrape) -> Samples:
        return [((log.name,), value(log.stats)) for log in scrape.logs if log.stats is not None]

    return samples


def _followers(value: Callable[[FollowerStatus], Any]) -> Callable[[Scrape], Samples]:
    def samples(scrape: Scrape) -> Samples:
        return [
            ((log.name, follower.name), value(follower))
            for log in scrape.logs
            if log.stats is not None
            for follower in log.followers[:FOLLOWERS]
        ]

    return samples


def _requests(scrape: Scrape) -> Samples:
    for (method, path, status), latencies in list(scrape.metrics.requests.items()):
        yield (method, path, str(status)), latencies


def _problems(scrape: Scrape) -> Samples:
    return [((code,), count) for code, count in list(scrape.metrics.problems.items())]


def _buckets(distribution: Distribution) -> Iterator[tuple[str, float]]:
    bounds = [*map(str, distribution.bounds), "+Inf"]
    return zip(bounds, accumulate(distribution.counts), strict=True)


_LOG = ("log",)
_FOLLOWER = ("log", "follower")
METRICS: tuple[Metric, ...] = (
    Metric(
        "strandline_build_info",
        "gauge",
        "1, with the version as a label.",
        ("version",),
        lambda _: [((__version__,), 1)],
    ),
    Metric(
        "strandline_draining",
        "gauge",
        "1 while the server ends.",
        (),
        lambda it: [((), int(it.service.is_draining))],
    ),
    Metric(
        "strandline_requests_under_way",
        "gauge",
        "Requests that are not answered completely, live streams included.",
        (),
        lambda it: [((), it.metrics.under_way)],
    ),
    Metric(
        "strandline_request_seconds",
        "histogram",
        "Time to the end of the answer. A live stream counts to its beginning.",
        ("method", "route", "status"),
        _requests,
    ),
    Metric(
        "strandline_problems_total",
        "counter",
        "Problems answered, those in lines of a stream included.",
        ("code",),
        _problems,
    ),
    Metric(
        "strandline_live_streams",
        "gauge",
        "Live streams that are open.",
        _LOG,
        _counted(lambda it: it.live_streams),
    ),
    Metric(
        "strandline_appends_total",
        "counter",
        "Appends that were written.",
        _LOG,
        _counted(lambda it: it.appends),
    ),
    Metric(
        "strandline_events_total",
        "counter",
        "Events that were written.",
        _LOG,
        _counted(lambda it: it.events),
    ),
    Metric(
        "strandline_duplicates_total",
        "counter",
        "Appends that were repeats, of which nothing was written.",
        _LOG,
        _counted(lambda it: it.duplicates),
    ),
    Metric(
        "strandline_conflicts_total",
        "counter",
        "Appends that their condition refused.",
        _LOG,
        _counted(lambda it: it.conflicts),
    ),
    Metric(
        "strandline_append_events",
        "histogram",
        "Events in an append that was written.",
        _LOG,
        _counted(lambda it: it.append_events),
    ),
    Metric(
        "strandline_bulk_appends",
        "histogram",
        "Appends in a transaction of POST …/appends.",
        _LOG,
        _counted(lambda it: it.bulk_appends),
    ),
    Metric(
        "strandline_log_up",
        "gauge",
        "1 if the log answered when it was last looked at. Without an answer it has no metrics but this one.",
        _LOG,
        lambda it: [((log.name,), int(log.stats is not None)) for log in it.logs],
    ),
    Metric("strandline_head", "gauge", "The last position.", _LOG, _state(lambda stats: stats.head)),
    Metric(
        "strandline_log_bytes", "gauge", "The size of the log.", _LOG, _state(lambda stats: stats.size_bytes)
    ),
    Metric(
        "strandline_followers",
        "gauge",
        "Followers of the log.",
        _LOG,
        lambda it: [((log.name,), len(log.followers)) for log in it.logs if log.stats is not None],
    ),
    Metric(
        "strandline_follower_lag_events",
        "gauge",
        "Positions between a follower and the head.",
        _FOLLOWER,
        _followers(lambda status: status.lag),
    ),
    Metric(
        "strandline_follower_lag_seconds",
        "gauge",
        "Age of the first event that a follower has not passed.",
        _FOLLOWER,
        _followers(lambda status: status.lag_seconds),
    ),
    Metric(
        "strandline_follower_dead_letters",
        "gauge",
        "Dead letters of a follower.",
        _FOLLOWER,
        _followers(lambda status: status.dead_letters),
    ),
)
