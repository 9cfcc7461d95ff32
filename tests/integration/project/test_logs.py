"""What the Procfile's own command lines log: WEIR_LOG_LEVEL means what it says in Celery's processes, too."""

import pytest

from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile

pytestmark = pytest.mark.django_db(transaction=True)


def test_beat_logs_that_it_holds_the_lock(procfile: Procfile, eventually: Eventually) -> None:
    """It is a line of the level INFO, which is the default."""
    procfile.start("beat")
    eventually(lambda: '"event": "beat_holds_lock"' in procfile.said("beat"), "the line")


@pytest.mark.parametrize(("level", "lines"), [("INFO", 1), ("WARNING", 0)])
def test_a_worker_logs_by_our_level(level: str, lines: int, procfile: Procfile, eventually: Eventually) -> None:
    """Celery says at the level INFO that it is connected, as Weir says that a site is backed off."""
    procfile.start("fetcher", WEIR_LOG_LEVEL=level)
    eventually(lambda: procfile.broker.client_list() and procfile.broker.llen("fetch") == 0, "the worker to start")
    procfile.broker.lpush("fetch", "no message")
    eventually(lambda: '"level": "critical"' in procfile.said("fetcher") or "decode" in procfile.said("fetcher"), "it")
    assert procfile.said("fetcher").count('"event": "Connected to redis') == lines
