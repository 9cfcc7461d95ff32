"""The page that shows what is transmitted of an e-mail: its text, and its HTML in a frame that can do nothing."""

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.models import Email
from weir.workers.mail.reports import previews
from weir.workers.mail.reports.previews import NothingToShow, Preview

MAY_READ = "weir_mail.view_email"
# The HTML is an app's, with values that anybody may have written: no scripts, no forms, no requests to anywhere, and no
# part in this site's cookies (sandbox: an origin of its own).
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)


def page(request: HttpRequest, email_id: int, site: AdminSite) -> HttpResponse:
    """Show headers, text, HTML and the names of the files."""
    email = _readable(request, email_id)
    preview: Preview | None = None
    refusal = ""
    try:
        preview = previews.of(email)
    except (NothingToShow, CannotBeWritten) as error:
        refusal = str(error)
    context = {
        **site.each_context(request),
        "title": f"E-mail {email.pk} as it is transmitted",
        "opts": Email._meta,  # noqa: SLF001  documented, in spite of its name
        "email": email,
        "preview": preview,
        "refusal": refusal,
    }
    return TemplateResponse(request, "admin/weir_mail/email/preview.html", context)


def frame(request: HttpRequest, email_id: int) -> HttpResponse:
    """Return the e-mail's HTML, for the frame."""
    try:
        preview = previews.of(_readable(request, email_id))
    except (NothingToShow, CannotBeWritten) as error:
        raise Http404(str(error)) from error
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "Referrer-Policy": "no-referrer",
    }
    return HttpResponse(preview.html, content_type="text/html; charset=utf-8", headers=headers)


def _readable(request: HttpRequest, email_id: int) -> Email:
    """Return the e-mail. Whoever may resolve e-mails may not for that alone read what they say."""
    if not request.user.has_perm(MAY_READ):
        raise PermissionDenied
    if (email := Email.objects.filter(pk=email_id).first()) is None:
        raise Http404(f"There is no e-mail {email_id}.")
    return email
