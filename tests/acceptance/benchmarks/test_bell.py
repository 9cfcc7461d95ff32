"""The benchmark of the bell measures real web processes, asked by users who are signed in."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User

from benchmarks import bell
from benchmarks.bell import sides
from benchmarks.bell.size import Size

SMALL = Size(users=3, without_etag=1, every_s=0.2, idle_s=0.1, side_s=1.5, others_per_s=20, changing_per_s=5)


@pytest.mark.usefixtures("installation")
def test_unchanged_polls_are_answered_without_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is refused, most answers are 304, and the users are gone."""
    monkeypatch.setattr(sides, "STATISTICS_LAG_S", 0.0)  # what PostgreSQL counts is not looked at here
    figures = {figure.name: figure.value for figure in bell.measure(tmp_path, SMALL)}
    assert {name.rpartition("_")[2] for name in figures if "_answers_" in name} <= {"200", "304"}
    assert figures["bell_unchanged_answers_304"] > 10
    assert "bell_unchanged_answers_200" not in figures
    assert figures["bell_without_etag_answers_200"] > 5
    assert not User.objects.filter(username__startswith="tab-of-benchmark").exists()
