"""The version of Weir that runs, as a label of a gauge that is always 1."""

import importlib.metadata
import platform

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def family() -> Metric:
    """Return the gauge."""
    try:
        version = importlib.metadata.version("django-weir")
    except importlib.metadata.PackageNotFoundError:  # a checkout that was not installed
        version = ""
    made = GaugeMetricFamily("weir_build_info", "Always 1; the labels say what runs.", labels=["version", "python"])
    made.add_metric([version, platform.python_version()], 1)
    return made
