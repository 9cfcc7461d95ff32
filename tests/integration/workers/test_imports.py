"""What a process does not need it does not load: seven processes start at once, and share the processors."""

import pytest

from tests.integration.conftest import StartPython

LOAD = """
from types import SimpleNamespace
from celery.signals import celeryd_after_setup
from project.celery import app
app.loader.import_default_modules()
app.amqp.queues.select([sys.argv[1]])
celeryd_after_setup.send(sender="worker@here", instance=SimpleNamespace(app=app), conf=app.conf)
print("httptools" in sys.modules, file=sys.__stdout__, flush=True)
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("queue", "fetches"), [("weir.fetch", True), ("weir.ticks", False)])
def test_those_that_fetch_load_an_http_client_before_their_first_message(
    queue: str, fetches: bool, start_python: StartPython
) -> None:
    """The others never do: it takes a sixth of the time that a process needs to start."""
    output, _ = start_python(LOAD, queue, new=True).communicate(timeout=60)
    assert output == f"{fetches}\n"
