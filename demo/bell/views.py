"""The demo's page of a web application: the signed-in user's bell, beside the count of that user's rows."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from weir.notifications import inbox
from weir.ops.pages import guarded
from weir.postgres.statements import Statement

OWN_ROWS = Statement("own_rows", returns=int, commits=True)


@login_required
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show a page with the bell in it."""
    return guarded(render(request, "demo/bell.html", {"title": "The bell"}))


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """Count the user's unread rows, for comparison."""
    [unread] = OWN_ROWS(user=request.user.pk)
    return guarded(JsonResponse({"rows": unread}))


@login_required
@require_POST
def notify(request: HttpRequest) -> HttpResponse:
    """Notify the user who asks for it."""
    inbox.notify(request.user.pk, "demo", "You asked for it", body="By the button of the demo's page.", url="/demo/")
    return guarded(redirect("demo:bell"))
