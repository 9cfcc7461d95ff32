"""Heartbeats, processes, and the messages that wait for them."""

import math
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from weir.ops.metrics.families import gauges
from weir.workers import broker_link, heartbeats, schedule
from weir.workers.overview.problems import needed
from weir.workers.processes.status import processes


def families() -> Iterator[Metric]:
    """Yield the ages of the queues' heartbeats, and how many processes of each kind are alive or silent."""
    ages = heartbeats.ages_s()
    yield gauges(
        "weir_heartbeat_age_seconds",
        "Since a worker of the queue last ran its scheduled task: beat, broker, worker and database work together. "
        "+Inf: it never did.",
        "queue",
        {queue: ages.get(queue, math.inf) for queue in schedule.queues()},
    )
    states = Counter(
        (kind, "alive" if process.runs else "silent")
        for process in processes()
        if process.state != "gone"
        for kind in process.kinds
    )
    family = GaugeMetricFamily(
        "weir_processes", "Processes that are known, by kind and state.", labels=["kind", "state"]
    )
    for kind in needed():
        for state in ("alive", "silent"):
            family.add_metric([kind, state], states[kind, state])
    yield family


def message_families() -> Iterator[Metric]:
    """Yield how many messages wait in the broker. Raises broker_link.BrokerUnreachable."""
    messages = {queue: broker_link.waiting_in(queue) for queue in schedule.queues()}
    yield gauges("weir_messages_waiting", "Messages that wait for a worker of the queue.", "queue", messages)
