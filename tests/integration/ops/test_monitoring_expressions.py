"""Alarms and dashboard ask for metrics and labels that /metrics has."""

import json
import re
from collections import defaultdict

import pytest
import yaml
from django.utils import timezone
from prometheus_client.metrics_core import Metric

from project.checkout import CHECKOUT
from weir.notifications import flush, inbox, reconcile
from weir.ops.metrics.scrape import scrape
from weir.workers import broker_link
from weir.workers.history.models import Total
from weir.workers.history.rollup import roll_up
from weir.workers.recovery.models import Recovery

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "valkey")]

OF_PROMETHEUS = {"up": {"job", "instance"}}


def expressions() -> dict[str, str]:
    """Return the expressions of all alarms and panels, by their names."""
    alerts = yaml.safe_load((CHECKOUT / "deploy/prometheus/weir-alerts.yml").read_text())
    dashboard = json.loads((CHECKOUT / "deploy/grafana/weir.json").read_text())
    of_alerts = {rule["alert"]: rule["expr"] for group in alerts["groups"] for rule in group["rules"]}
    of_panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    }
    assert of_panels
    return of_alerts | of_panels


def exposed(families: list[Metric]) -> dict[str, dict[str, set[str]]]:
    """Return the labels of each metric, and their values."""
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for family in families:
        for sample in family.samples:
            for label, value in sample.labels.items():
                found[sample.name].setdefault(label, set()).add(value)
            found[sample.name] = found[sample.name]
    return found


def test_each_expression_names_what_is_exposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics, labels, and values of labels."""
    monkeypatch.setattr(broker_link, "waiting_in", lambda _queue: 0)
    Total.objects.create(series="fetch_failures", label="timeout", value=1)
    roll_up()
    inbox.notify(1, "news", "Hello")
    flush.flush_sealed()
    reconcile.run_pass()
    Recovery.objects.create(since=timezone.now(), why="It went back.", who="test", sites=1, emails=2)
    known = exposed(list(scrape().families))
    for name, expression in expressions().items():
        selectors = re.findall(r"\b(weir_\w+|up)\b(?:\{([^}]*)\})?", expression)
        assert selectors, name
        labels: set[str] = set()
        for metric, matchers in selectors:
            assert metric in known or metric in OF_PROMETHEUS, (name, metric)
            for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                assert metric in OF_PROMETHEUS or value in known[metric].get(label, set()), (name, metric, label, value)
            labels |= known[metric].keys() if metric in known else OF_PROMETHEUS[metric]
        for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
            assert {part.strip() for part in grouped.split(",")} <= labels, name
