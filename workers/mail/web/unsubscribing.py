"""Lets a recipient unsubscribe from a kind of e-mail, by the signed link in an e-mail of this kind (RFC 8058).

Mail programs send a POST when somebody presses their button. They send no cookie, and nobody is signed in: the link
itself is the proof. Programs that look for dangerous links open them by GET, which changes nothing: people get a page
with a button.
"""

from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from weir.workers.mail import suppression
from weir.workers.mail.signals import unsubscribed
from weir.workers.mail.writing import unsubscribing
from weir.workers.mail.writing.unsubscribing import Subscription

FIELD: Final = "List-Unsubscribe"
VALUE: Final = "One-Click"
MOST_BYTES: Final = 4_096  # of a body, which has one field


@login_not_required
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Unsubscribe by POST, however often; show a page with a button by GET. 404 for a link that was not made here."""
    try:
        subscription = unsubscribing.read(token)
    except unsubscribing.NoLink:
        raise Http404 from None
    if request.method != "POST":
        return _page(request, subscription.kind, is_done=False)
    if _is_long(request.headers.get("Content-Length", "0")) or not _is_one_click(request):
        return HttpResponse(f"Send the field {FIELD}={VALUE}.\n", status=400, content_type="text/plain")
    with transaction.atomic():
        answers = unsubscribed.send(sender=Subscription, subscription=subscription)
        if not any(answer for _, answer in answers):
            suppression.unsubscribe(subscription.address_hash, subscription.kind)
    return _page(request, subscription.kind, is_done=True)


def _is_long(length: str) -> bool:
    """Return whether a body of this length is not even read. Of one in chunks, Django reads what its settings allow."""
    return not length.isdecimal() or len(length) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES


def _is_one_click(request: HttpRequest) -> bool:
    """Return whether the body has the field. Some clients do not say that it is a form, or name an odd charset."""
    form = request.POST if request.content_type == "multipart/form-data" else QueryDict(request.body)
    return form.get(FIELD, "").strip() == VALUE


def _page(request: HttpRequest, kind: str, *, is_done: bool) -> HttpResponse:
    shows = {"kind": kind, "is_done": is_done, "field": FIELD, "value": VALUE}
    response = render(request, "weir/mail/unsubscribe.html", shows)
    response.headers["Referrer-Policy"] = "no-referrer"  # the link itself is the proof
    response.headers["X-Robots-Tag"] = "noindex"
    patch_cache_control(response, no_store=True)
    return response
