"""Totals that only grow. The rollup writes them to PostgreSQL, so all web processes return the same totals."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from weir.ops.metrics.families import counter, counters

Totals = Mapping[tuple[str, str], int]  # by series and label

EMAILS_SENT: Final = "emails_sent"  # by kind
LONGEST_LABEL: Final = 40  # characters, as in rollup.sql
LABELLED: Final = {  # by series: the metric, its meaning, its label, and the values that are shown before they occur
    "fetches_ended": ("weir_fetches_ended", "Fetches that ended.", "outcome", ("done", "failed", "cancelled")),
    "fetch_failures": ("weir_fetch_failures", "Fetches that failed.", "reason", ()),
    "slots": ("weir_slots", "Slots that are past.", "fate", ("used", "given back", "missed", "void", "unreported")),
    "emails_ended": ("weir_emails_ended", "E-mails that ended.", "outcome", ("sent", "failed", "unknown", "expired")),
    EMAILS_SENT: ("weir_emails_sent", "E-mails that were sent; other: kinds of long names.", "kind", ()),
}
SINGLE: Final = {
    "slots_allowed": ("weir_slots_allowed", "Slots that the rates of sites with work allowed."),
    "unread_flushed": ("weir_unread_flushed_users", "Unread numbers that flushes wrote."),
}
CLOSED: Final = {"emails_ended"}  # series that show all values except the expected ones as `other`
LATENESS: Final = "fetch_lateness"  # the series whose labels are upper bounds in milliseconds
BOUNDS_MS: Final = (
    1.0,
    5.0,
    10.0,
    50.0,
    100.0,
    500.0,
    1_000.0,
    5_000.0,
)  # some of rollup.LATENESS_MS, so that there are few series


def families(totals: Totals, kinds: Iterable[str] = ()) -> Iterator[Metric]:
    """Yield a counter for each series in LABELLED and SINGLE, and the histogram of lateness.

    An expected value is shown as 0 before it occurs, because Prometheus sees no increase when a series begins. So each
    of `kinds` is shown from the start, too.
    """
    by_series: dict[str, dict[str, int]] = defaultdict(dict)
    by_series[EMAILS_SENT].update({kind: 0 for kind in kinds if len(kind) <= LONGEST_LABEL})
    for (series, label), value in totals.items():
        by_series[series][label] = value
    for series, (name, meaning, label, expected) in LABELLED.items():
        values: Counter[str] = Counter(dict.fromkeys(expected, 0))
        for text, value in by_series[series].items():
            values[text if text in expected or series not in CLOSED else "other"] += value
        yield counters(name, meaning, label, {text.replace(" ", "_"): number for text, number in values.items()})
    for series, (name, meaning) in SINGLE.items():
        yield counter(name, meaning, sum(by_series[series].values()))
    yield lateness(by_series[LATENESS], sum(by_series[f"{LATENESS}_sum_us"].values()))


def lateness(starts: Mapping[str, int], sum_us: int) -> Metric:
    """Return the histogram of how long after their slots fetches started.

    `starts` maps the upper bound of each bucket, in milliseconds or "inf", to the number of starts in this bucket, not
    including the buckets below it.
    """
    family = HistogramMetricFamily("weir_fetch_lateness_seconds", "How long after its slot a fetch started.")
    found = {float(bound): number for bound, number in starts.items()}
    buckets = [(f"{bound / 1000:g}", float(sum(n for b, n in found.items() if b <= bound))) for bound in BOUNDS_MS]
    buckets.append(("+Inf", float(sum(found.values()))))
    family.add_metric([], buckets, sum_us / 1e6)
    return family
