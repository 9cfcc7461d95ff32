"""README's picture is made by running processes: here a small one, whose figures are those of the large one."""

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from benchmarks import picture
from benchmarks.page import rows
from benchmarks.picture.size import Size

SMALL = Size(kills=1, kill_every_s=0.5, sites=2, users=range(1, 21), users_at_once=5, settle_s=90.0)


@pytest.mark.usefixtures("valkey")
def test_peers_go_wrong_where_weir_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Two workers of Celery ask twice as often as the rate allows, whatever is killed; of Weir nothing goes wrong."""
    database = connection.settings_dict
    url = f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}"
    monkeypatch.setenv("DATABASE_URL", url)
    settings.WEIR_FETCH_ALLOW_NETS = ["127.0.0.0/8"]
    monkeypatch.setenv("WEIR_FETCH_ALLOW_NETS", "127.0.0.0/8")
    call_command("sync_schedule", stdout=io.StringIO())
    figures = {figure.name: figure.value for figure in picture.measure(tmp_path, SMALL)}
    paced, counted, once = rows.of(figures)
    assert paced.without[0].bad > 0
    assert (paced.weir.bad, counted.weir.bad, once.weir.bad) == (0, 0, 0)
    assert min(paced.weir.of, counted.weir.of, once.weir.of) > 0
    assert "never came" not in once.weir.beside
    assert (tmp_path / "picture.svg").exists()
