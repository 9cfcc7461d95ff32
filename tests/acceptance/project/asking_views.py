"""A view that asks for a page, and ships an order."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from weir.workers.fetches.enqueue import request_fetch
from weir.workers.orders import shipping


def ask(request: HttpRequest) -> HttpResponse:
    """Ask for what the query names."""
    request_fetch(request.GET["url"], max_attempts=1)
    shipping.ship(int(request.GET["order"]))
    return HttpResponse("asked")


urlpatterns = [path("ask", ask)]
