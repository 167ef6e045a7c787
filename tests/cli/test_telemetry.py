"""Batches reach an OpenTelemetry collector: here a web server that parses what it gets."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.cli.telemetry import ENDPOINT_VARIABLES, open_telemetry

Received = list[tuple[str, bytes]]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    received: Received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ENDPOINT_VARIABLES[0], f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield received
        server.shutdown()


def test_a_batch_is_a_trace_and_counts(collector: Received, tmp_path: Path) -> None:
    local, telemetry = Local(tmp_path, STREAMS, SUBMISSIONS[:3]), open_telemetry("market")
    assert telemetry is not None
    rng = np.random.default_rng(0)
    for _ in range(2):
        local.batch({"trades": trades(rng, 50)})
    for batch in local.committer.completed_batches:
        telemetry.add_batch(batch)
    telemetry.close()
    spans = [
        span
        for path, body in collector
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    roots = [span for span in spans if span.name == "batch"]
    assert len(roots) == 2
    assert {span.trace_id for span in spans} == {span.trace_id for span in roots}
    assert {span.parent_span_id for span in spans if span.name != "batch"} == {
        span.span_id for span in roots
    }
    counts = {
        metric.name: metric.sum.data_points[0].as_int
        for path, body in collector
        if path == "/v1/metrics"
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.HasField("sum")
    }
    assert counts["evenflow.rows"] == 2 * 50 * 3  # each query reads all rows


def test_nothing_is_sent_unless_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ENDPOINT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert open_telemetry("market") is None
