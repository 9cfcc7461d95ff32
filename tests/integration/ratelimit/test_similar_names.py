"""Which site was meant by a misspelt name is found by the index, however many sites there are."""

import time

import pytest
from django.db import connection

from weir.ratelimit import site_settings
from weir.ratelimit.similar_names import most_similar, one_letter_off

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("api.exmaple.com", "api.example.com"),
        ("pi.example.com", "api.example.com"),
        ("apii.example.com", "api.example.com"),
        ("api.example.con", "api.example.com"),
        ("www.api.example.com", "api.example.com"),
        ("api.example.comm:80", "api.example.com"),
        ("localhost", "localhost:8000"),
        ("shop.test", None),
    ],
)
def test_the_name_that_is_most_alike_is_found(given: str, meant: str | None) -> None:
    """One wrong stroke anywhere, or a name that stands beside it."""
    for name in ("api.example.com", "localhost:8000", "zzz.invalid"):
        site_settings.set_rate(name, "1/s")
    assert most_similar(given) == meant


def test_all_wrong_strokes_are_thought_of() -> None:
    """A letter too much, one that is missing, a wrong one, two that are exchanged."""
    assert {"bc", "ac", "ab", "abcd", "xabc", "axc", "acb", "bac"} <= set(one_letter_off("abc"))
    assert len(list(one_letter_off("x" * 61))) == 0


def test_among_very_many_sites_the_name_is_found_at_once() -> None:
    """Thousands of names stand between what was meant and what was written."""
    site_settings.set_rate("api.example.com", "1/s")
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
            SELECT 'api.exb' || n || '.com', '1 s', 1, false, false FROM generate_series(1, 200000) AS n
            """
        )
    began_at = time.monotonic()
    assert most_similar("api.exmaple.com") == "api.example.com"
    assert most_similar("nothing.of.the.kind.at.all.example.org") is None
    assert time.monotonic() - began_at < 2
