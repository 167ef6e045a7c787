"""Traces and metrics by OpenTelemetry: the extra `otel`, configured by its standard variables.

`OTEL_EXPORTER_OTLP_ENDPOINT` switches it on; the SDK reads the others. Each batch is a trace: a
span of the batch, and below it one of each busy worker, as long as the CPU time of its queries.
"""

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.spark.driver.completed_batch import CompletedBatch
    from evenflow.spark.run import Run

ENDPOINT_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_NS = 1_000_000_000
_log = logging.getLogger("evenflow.run")


class Telemetry:
    """Reports the batches of a run once each. Main thread of `evenflow run`."""

    def __init__(self, traces: Any, metrics: Any) -> None:
        self._providers = traces, metrics
        self._tracer = traces.get_tracer("evenflow")
        meter = metrics.get_meter("evenflow")
        self._seconds = meter.create_histogram("evenflow.batch.duration", "s", "Work of a batch.")
        self._rows = meter.create_counter("evenflow.rows", "1", "Rows read by queries.")
        self._results = meter.create_counter("evenflow.results", "1", "Rows of results.")
        self._next = 0

    def report(self, run: "Run") -> None:
        """Report the batches that were completed since the last time."""
        for batch in run.batches:
            if batch.number >= self._next:
                self._next = batch.number + 1
                self.add_batch(batch)

    def add_batch(self, batch: "CompletedBatch") -> None:
        """Report one batch."""
        from opentelemetry.trace import set_span_in_context

        stats = [stats for report in batch.reports for stats in report.query_stats.values()]
        rows, results = sum(s.rows_in for s in stats), sum(s.rows_out for s in stats)
        end_ns = int(batch.at * _NS)
        start_ns = end_ns - int(batch.work_seconds * _NS)
        facts = {"evenflow.batch": batch.number, "evenflow.rows": rows, "evenflow.results": results}
        span = self._tracer.start_span("batch", start_time=start_ns, attributes=facts)
        context = set_span_in_context(span)
        for report in batch.reports:
            if report.query_stats:
                seconds = sum(s.cpu_seconds for s in report.query_stats.values())
                worker = self._tracer.start_span(
                    f"worker {report.worker}",
                    context,
                    start_time=start_ns,
                    attributes={
                        "evenflow.worker": report.worker,
                        "evenflow.queries": len(report.query_stats),
                        "evenflow.failed": sorted(report.failed),
                    },
                )
                worker.end(min(end_ns, start_ns + int(seconds * _NS)))
        span.end(end_ns)
        self._seconds.record(batch.work_seconds)
        self._rows.add(rows)
        self._results.add(results)

    def close(self) -> None:
        """Send what is left."""
        for provider in self._providers:
            provider.shutdown()


def open_telemetry(name: str) -> Telemetry | None:
    """Return what reports a run, if the environment says where to; None: nowhere."""
    if not any(os.environ.get(variable) for variable in ENDPOINT_VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("no telemetry is sent: pip install 'evenflow[otel]'")
        return None
    resource = Resource.create({"service.name": "evenflow", "evenflow.run": name})
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return Telemetry(traces, MeterProvider([reader], resource=resource))
