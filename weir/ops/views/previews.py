"""What an e-mail says: its text on the e-mail's page, its HTML in a frame that can do nothing.

The HTML is an app's, with values that anybody may have written. The browser gets it at a URL of its own, and is told to
run and to load nothing of it, and to give it no part in this site. Nothing is rendered here: that calls an app's code.
"""

import re
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from weir.ops.pages import OwnPart, forbidden, guarded
from weir.ops.snapshots import Look, look
from weir.workers.fetches.reports.preview import visible
from weir.workers.mail.models import Email
from weir.workers.mail.reports import previews
from weir.workers.mail.reports.previews import EmailPreview, NothingToShow

MAY_READ: Final = "weir_mail.view_email"
MOST_BYTES: Final = 5 * 1024 * 1024  # of an e-mail, with its files
LONGEST_TEXT: Final = 20_000  # characters
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "X-Frame-Options": "SAMEORIGIN",
}
# Chromium connects to the host of a frame before it asks the policy; others may for a link. In place of each stands an
# element without contents, which may stand in the head, and does nothing.
_CONNECTS: Final = re.compile("<(?:link|meta|i?frame|object|embed)", re.IGNORECASE)
_NOTHING: Final = "<basefont"


def part(request: HttpRequest, email_id: int) -> OwnPart:
    """Return the part of the e-mail's page for this visitor."""
    template, shows = "weir/ops/email_says.html", {"id": email_id, "permission": MAY_READ}
    if not request.user.has_perm(MAY_READ):
        return OwnPart(template=template, shows=shows)
    looked = _read(email_id)
    if not isinstance(says := looked.value, EmailPreview):
        return OwnPart(template=template, shows={**shows, "may_read": True, "why_not": says or looked.failure})
    text = says.text.replace("\r\n", "\n")
    shows |= {
        "may_read": True,
        "says": says,
        "subject": next((value for name, value in says.headers if name.lower() == "subject"), ""),
        "text": visible(text[:LONGEST_TEXT]),
        "is_cut": len(text) > LONGEST_TEXT,
    }
    return OwnPart(template=template, shows=shows, has_frame=bool(says.html))


@login_not_required  # as of pages: it asks by itself
def html(request: HttpRequest, email_id: int) -> HttpResponse:
    """Return the HTML of an e-mail, for the frame on its page; who opens it elsewhere is sent to the page."""
    if request.method not in {"GET", "HEAD"}:
        return HttpResponseNotAllowed(["GET", "HEAD"])
    return guarded(forbidden(request) or _html(request, email_id))


def _html(request: HttpRequest, email_id: int) -> HttpResponse:
    if not request.user.has_perm(MAY_READ):
        return _refused(403, f"You lack the permission {MAY_READ}.")
    if request.headers.get("Sec-Fetch-Dest", "iframe") != "iframe":
        return HttpResponseRedirect(reverse("weir_ops:email", args=[email_id]))
    looked = _read(email_id)
    if not isinstance(says := looked.value, EmailPreview):
        return _refused(404 if says else 503, says or looked.failure)
    if not says.html:
        return _refused(404, "This e-mail has no HTML.")
    return HttpResponse(_CONNECTS.sub(_NOTHING, says.html), content_type="text/html; charset=utf-8", headers=HEADERS)


def _refused(status: int, why: str) -> HttpResponse:
    return HttpResponse(why, status=status, content_type="text/plain; charset=utf-8", headers=HEADERS)


def _read(email_id: int) -> Look[EmailPreview | str]:
    """Return what the e-mail says, or a sentence that says why there is nothing to show."""

    def ask() -> EmailPreview | str:
        if (email := Email.objects.filter(pk=email_id).first()) is None:
            return f"There is no e-mail {email_id}."
        try:
            return previews.stored(email, MOST_BYTES)
        except NothingToShow as error:
            return str(error)

    return look(ask)
