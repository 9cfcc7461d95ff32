"""Django's pool of connections: a caller that asks for new sites in a transaction needs no second connection of it."""

import json

import pytest

from tests.integration.conftest import StartPython
from weir.ratelimit.models import Site

CALLERS = 4
# As many callers as the pool has connections, and each has one when the first asks for a site.
ALL_AT_ONCE = """
import json, threading
from concurrent.futures import ThreadPoolExecutor
from django.db import connection, transaction
from weir.workers.fetches.enqueue import request_fetch

together = threading.Barrier(4, timeout=60)

def ask(number):
    try:
        with transaction.atomic():
            connection.ensure_connection()
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            together.wait()
            request_fetch(f"https://new-{number}.example/")
    except Exception as error:
        return repr(error)
    finally:
        connection.close()

with ThreadPoolExecutor(4) as threads:
    print(json.dumps(list(threads.map(ask, range(4)))))
connection.close_pool()
"""
POOLED = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
from django.conf import settings
settings.DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 4, "max_size": 4, "timeout": 5}
"""


@pytest.mark.django_db(transaction=True)
def test_callers_with_all_connections_of_a_pool_ask_for_new_sites(start_python: StartPython) -> None:
    """Each site is committed on a connection of its own; the pool would never have one free."""
    said = start_python(ALL_AT_ONCE, before=POOLED).communicate(timeout=120)[0]
    assert json.loads(said.splitlines()[-1]) == [None] * CALLERS
    assert Site.objects.filter(name__startswith="new-").count() == CALLERS
