"""Totals that only grow, which the rollup writes: the same in each web process, however many there are."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from ops.metrics.families import counter, counters

Totals = Mapping[tuple[str, str], int]  # by series and label

LABELLED: Final = {  # series: the metric, what it means, its label
    "fetches_ended": ("weir_fetches_ended", "Fetches that ended, by outcome.", "outcome"),
    "fetch_failures": ("weir_fetch_failures", "Fetches that failed, by reason.", "reason"),
    "slots": ("weir_slots", "Slots that are past, by what became of them.", "fate"),
    "emails_ended": ("weir_emails_ended", "E-mails that ended, by outcome.", "outcome"),
}
SINGLE: Final = {
    "slots_allowed": ("weir_slots_allowed", "Slots that the rates of sites with work allowed."),
    "unread_flushed": ("weir_unread_flushed_users", "Unread numbers that flushes wrote."),
}
LATENESS: Final = "fetch_lateness"  # its labels are upper bounds in milliseconds


def families(totals: Totals) -> Iterator[Metric]:
    """Yield a counter for each series that is known here, and the histogram of lateness."""
    by_series: dict[str, dict[str, int]] = defaultdict(dict)
    for (series, label), value in totals.items():
        by_series[series][label] = value
    for series, (name, meaning, label) in LABELLED.items():
        if series in by_series:
            yield counters(name, meaning, label, {text.replace(" ", "_"): n for text, n in by_series[series].items()})
    for series, (name, meaning) in SINGLE.items():
        if series in by_series:
            yield counter(name, meaning, sum(by_series[series].values()))
    if LATENESS in by_series:
        yield lateness(by_series[LATENESS], sum(by_series[f"{LATENESS}_sum_us"].values()))


def lateness(starts: Mapping[str, int], sum_us: int) -> Metric:
    """Return the histogram of how long after their slots fetches started.

    `starts` has how many were counted below each upper bound and above the one before it; "inf" is the last bound.
    """
    family = HistogramMetricFamily("weir_fetch_lateness_seconds", "How long after its slot a fetch started.")
    buckets, seen = [], 0
    for bound_ms, number in sorted((float(bound), number) for bound, number in starts.items()):
        seen += number
        buckets.append((f"{bound_ms / 1000:g}" if bound_ms < math.inf else "+Inf", float(seen)))
    if not buckets or buckets[-1][0] != "+Inf":
        buckets.append(("+Inf", float(seen)))
    family.add_metric([], buckets, sum_us / 1e6)
    return family
