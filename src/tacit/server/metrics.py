"""Numbers for Prometheus: about the service, never about a survey or a sender."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

# No times: each number would also say since when it is counted.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """One set per service, so that tests can run several."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._responses = Counter(
            "tacit_http_responses", "Responses by status class", ["status"], registry=self._registry
        )
        self._reports = Counter("tacit_reports", "Reports counted", registry=self._registry)
        self._commits = Histogram(
            "tacit_commit_submissions",
            "Submissions per commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
            registry=self._registry,
        )
        self._by_class = [self._responses.labels(f"{digit}xx") for digit in range(1, 6)]

    def answered(self, status: int) -> None:
        """A response was sent."""
        self._by_class[status // 100 - 1].inc()

    def counted(self, reports: int) -> None:
        """Reports were counted."""
        self._reports.inc(reports)

    def committed(self, submissions: int) -> None:
        """A group was committed."""
        self._commits.observe(submissions)

    def text(self) -> bytes:
        """All of it, in Prometheus' format."""
        return generate_latest(self._registry)
