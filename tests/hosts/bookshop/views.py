from django.db import transaction
from django.http import HttpRequest, HttpResponse

from weir.notifications import inbox
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.mail import outbox

from .tasks import BUYER, cover_came

COVER = "https://covers.example.com/Emma.txt"


@transaction.atomic
def order(request: HttpRequest) -> HttpResponse:
    """Order a book: its cover is fetched, and the buyer is told twice; all of it or nothing."""
    book = request.POST["book"]
    request_fetch(f"https://covers.example.com/{book}.txt", on_done=cover_came)
    inbox.notify(BUYER, "ordered", f"You have ordered {book}")
    outbox.send_once("bookshop.ordered", book, to="Kim <kim@example.com>", context={"book": book})
    if book == "Ulysses":
        raise ValueError("Nobody reads it to the end.")
    return HttpResponse("Thank you.")
