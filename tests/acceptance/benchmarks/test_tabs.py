"""The benchmark of tabs measures the real web process, asked by users who are signed in."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User

from benchmarks import tabs
from benchmarks.tabs import paced, polling
from benchmarks.tabs.size import Size

SMALL = Size(tabs=2, rounds=1, calm_s=1.5, sites=1, paced_s=1.5, warm_up_s=0.1)


@pytest.mark.usefixtures("installation")
def test_tabs_are_answered_and_fetchers_fetch_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is refused, most answers of a calm page are those that were given before, and the users are gone."""
    monkeypatch.setattr(polling, "EVERY_S", 0.2)
    monkeypatch.setattr(paced, "OTHERS", dict.fromkeys(paced.OTHERS, 1))
    figures = {figure.name: figure.value for figure in tabs.measure(tmp_path, SMALL)}
    statuses = {name.rpartition("_")[2] for name in figures if "_answers_" in name}
    assert statuses <= {"200", "304"}
    assert figures["tabs_calm_many_users_web_cpu"] > 0
    assert figures["tabs_paced_with_tabs"] > 0
    assert not User.objects.filter(username__startswith="tab-of-benchmark").exists()
