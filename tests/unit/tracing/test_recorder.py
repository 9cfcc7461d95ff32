"""The recorder exports to the collector that Django's settings name, as all of Weir's settings count there."""

import pytest
from pytest_django import Settings

from tests import collector
from weir.workers.tracing.recorder import Recorder


def test_spans_go_to_the_collector_of_the_settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a project of one's own no variable names it."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with collector.running() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = f"{running.url}/"
        _record_one()
        assert running.named("asked")


def test_a_variable_may_name_the_whole_path(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's own, which wins."""
    with collector.running() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:1"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{running.url}/v1/traces")
        _record_one()
        assert running.named("asked")


def _record_one() -> None:
    recorder = Recorder(lambda: None)
    with recorder.span("asked", {}, "", ""):
        pass
    recorder.stop()
