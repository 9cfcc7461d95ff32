import json
from decimal import Decimal
from urllib.parse import urlsplit

from celery import shared_task

from weir import Fetch, FetchState

from . import prices


@shared_task
def price_arrived(fetch_id: int) -> None:
    """Note the price that a shop answered with; may be called twice for one fetch."""
    fetch = Fetch.objects.get(pk=fetch_id)
    if fetch.state == FetchState.DONE and fetch.status_code == 200:
        answer = json.loads(fetch.content or b"")
        prices.note(fetch.pk, urlsplit(fetch.url).netloc, Decimal(answer["price"]))
