"""Very many URLs in one call: memory is bounded, and the rows are like those of few URLs."""

import json
from typing import Any

import pytest
from django.db import connection, transaction

from tests.integration.conftest import Message, StartPython
from weir.workers import task_names
from weir.workers.fetches.enqueue import inserting, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.requested import RequestedFetches

pytestmark = pytest.mark.django_db(transaction=True)

MANY = """
import json, time
from pathlib import Path
from weir.workers import publish
publish.publish = lambda *_arguments, **_options: True
from weir.workers.fetches import enqueue
def memory_kib(name):
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields[name].removesuffix("kB"))
enqueue.request_fetches(["http://warm.test/"], dedupe=sys.argv[2] == "dedupe")
urls = [f"http://site{n % 4000}.test/page/{n}" for n in range(int(sys.argv[1]))]
Path("/proc/self/clear_refs").write_text("5")  # the most memory from here on
before, began_at = memory_kib("VmRSS"), time.monotonic()
fetches = enqueue.request_fetches(urls, dedupe=sys.argv[2] == "dedupe")
most = memory_kib("VmHWM")
print(json.dumps([len(fetches), most - before, time.monotonic() - began_at, most]), flush=True)
"""
NUMBER = 15_000


@pytest.mark.parametrize(("way", "most_b"), [("plain", 1_000), ("dedupe", 2_000)])
def test_a_url_takes_few_bytes_beside_itself(way: str, most_b: int, start_python: StartPython) -> None:
    """An instance of Django's takes three kilobytes: if there are very many, none is kept."""
    process = start_python(MANY, NUMBER, way, new=True)
    asked, kib, took_s, in_all_kib = json.loads(process.communicate(timeout=240)[0])
    print(f"\n{way}: {kib * 1024 / NUMBER:.0f} B each, {took_s:.1f} s, {in_all_kib / 1024:.0f} MiB in all")
    assert asked == NUMBER == Fetch.objects.exclude(url="http://warm.test/").count()
    assert kib * 1024 / NUMBER < most_b


@pytest.fixture(params=[False, True], ids=["plain", "dedupe"])
def asks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make three URLs count as very many; return the option of a way to ask."""
    monkeypatch.setattr(inserting, "KEPT", 2)
    return {"dedupe": request.param}


URLS = [f"https://{host}.test/{n}" for n, host in enumerate("abcab")]


def test_few_and_many_are_of_one_type(asks: dict[str, Any], django_assert_num_queries: Any) -> None:
    """A caller need not know how many are too many; but if there are few, no row is read again."""
    few, many = request_fetches(URLS[:2], **asks), request_fetches(URLS[2:], **asks)
    assert type(few) is type(many) is RequestedFetches
    for fetches in (few, many):
        assert [*fetches.ids] == [fetch.pk for fetch in fetches]
        assert [*fetches[1:]] == [*fetches][1:]
        assert fetches[1:][0] == fetches[1] == [*fetches][1]
        assert fetches[0] in fetches
    assert repr(many) == "<RequestedFetches: 3>"
    with django_assert_num_queries(0):
        assert [few[0].url, *[fetch.url for fetch in few[1:]]] == URLS[:2]


def test_very_many_are_queued_in_their_order_and_told_once(asks: dict[str, Any], messages: list[Message]) -> None:
    """Like few, in one transaction; rows are read when they are looked at."""
    texts = [*URLS, "ftp://no.test/"]
    fetches = request_fetches(texts, on_done="shop.tasks.arrived", **asks)
    assert [fetch.url for fetch in fetches] == texts == list(Fetch.objects.order_by("pk").values_list("url", flat=True))
    assert (fetches[0], fetches[-1].state, [*fetches[1:3]]) == (Fetch.objects.earliest("pk"), "failed", [*fetches][1:3])
    assert messages.count(("shop.tasks.arrived", (fetches[-1].pk,))) == 1
    assert [task for task, _ in messages].count(task_names.DISPATCH) == 1
    again = request_fetches([*URLS, *URLS], on_done="shop.tasks.arrived", **asks)
    if asks["dedupe"]:
        assert [fetch.pk for fetch in again] == [fetch.pk for fetch in fetches][:-1] * 2
    else:
        assert len({fetch.pk for fetch in [*fetches, *again]}) == 3 * len(URLS) + 1


@pytest.mark.usefixtures("messages")
def test_what_fails_half_way_is_not_asked_for(asks: dict[str, Any]) -> None:
    """And a row that was rolled back says so."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE weir_fetches_fetch ADD CONSTRAINT no_four CHECK (url NOT LIKE '%/4')")
    try:
        with pytest.raises(Exception, match="no_four"):
            request_fetches(URLS, **asks)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE weir_fetches_fetch DROP CONSTRAINT no_four")
    assert not Fetch.objects.exists()
    with transaction.atomic():
        fetches = request_fetches(URLS, **asks)
        transaction.set_rollback(True)
    with pytest.raises(Fetch.DoesNotExist, match="was rolled back"):
        fetches[0].refresh_from_db()
