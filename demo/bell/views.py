"""The demo's page of a web application: the bell of who is signed in, beside the count of that user's rows."""

from typing import NamedTuple

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from weir.notifications import inbox
from weir.ops.pages import guarded
from weir.postgres import statements


class OwnRows(NamedTuple):
    """How many of a user's notifications are unread."""

    unread: int


@login_required
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show a page with the bell in it."""
    return guarded(render(request, "demo/bell.html", {"title": "The bell"}))


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """Count the user's unread rows, for comparison."""
    [counted] = statements.run("demo", "own_rows", {"user": request.user.pk}, row=OwnRows)
    return guarded(JsonResponse({"rows": counted.unread}))


@login_required
@require_POST
def notify(request: HttpRequest) -> HttpResponse:
    """Notify who asks for it."""
    inbox.notify(request.user.pk, "demo", "You asked for it", body="By the button of the demo's page.", url="/demo/")
    return guarded(redirect("demo:bell"))
