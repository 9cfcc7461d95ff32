"""Sites that code creates in a TestCase: they go with its transaction."""

import psycopg
import pytest
from django.db import connection, transaction

from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch


@pytest.mark.django_db
def test_a_new_site_goes_with_the_test() -> None:
    """No other connection ever sees it, also where the code under test has a transaction of its own."""
    with transaction.atomic():
        request_fetch("https://new.example/")
    assert Site.objects.filter(name="new.example").exists()
    parameters = connection.get_connection_params()
    with psycopg.connect(**{**parameters, "cursor_factory": psycopg.Cursor}) as other:
        assert not other.execute(f"SELECT name FROM {Site._meta.db_table}").fetchall()


@pytest.mark.django_db(transaction=True)
def test_without_one_it_stays() -> None:
    """As promised: also where the caller rolls back."""
    with transaction.atomic():
        request_fetch("https://new.example/")
        transaction.set_rollback(True)
    assert Site.objects.filter(name="new.example").exists()
