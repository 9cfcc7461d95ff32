"""Families of metrics for Prometheus: each has a name, its meaning, and its series."""

from collections.abc import Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

BOUNDED: Final = "Not counted beyond 10,000: 10,001 means more."


def gauge(name: str, meaning: str, value: float) -> Metric:
    """Return a gauge with one series."""
    family = GaugeMetricFamily(name, meaning)
    family.add_metric([], value)
    return family


def gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge with a series for each value of the label."""
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for text, value in values.items():
        family.add_metric([text], value)
    return family


def counter(name: str, meaning: str, value: float) -> Metric:
    """Return a counter with one series; `_total` is added to the name."""
    family = CounterMetricFamily(name, meaning)
    family.add_metric([], value)
    return family


def counters(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a counter with a series for each value of the label; `_total` is added to the name."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for text, value in values.items():
        family.add_metric([text], value)
    return family
