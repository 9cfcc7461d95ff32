from celery import shared_task
from django.db import transaction

from weir.notifications import inbox
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail import outbox
from weir.workers.throttled.decorator import throttled_task

BUYER = 7


@shared_task
@transaction.atomic
def cover_came(fetch_id: int) -> None:
    """Tell the buyer of the cover, or that there is none; raise where the answer cannot be read."""
    fetch = Fetch.objects.get(pk=fetch_id)
    is_there = fetch.state == FetchState.DONE and fetch.status_code == 200
    title = (fetch.content or b"").decode("ascii") if is_there else f"no cover: {fetch.error or fetch.status_code}"
    inbox.notify(BUYER, "cover", title, dedupe_key=str(fetch_id))
    outbox.send_once("bookshop.ordered", f"cover {fetch_id}", to="kim@example.com", context={"book": title})


@throttled_task(site="stock.example.com", max_wait=5)
@shared_task
def look_at_stock(book: str) -> str:
    """Ask the warehouse."""
    return f"{book} is there"
