"""The pages that log people in and out."""

from collections.abc import Callable
from typing import cast

from django.contrib.auth import login
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from project.logins import links
from project.logins.gate import SignInForm
from weir.ops.clients import is_local
from weir.ops.pages import guarded

_BACKEND = "django.contrib.auth.backends.ModelBackend"
_View = Callable[[HttpRequest], HttpResponse]
_form = cast("_View", LoginView.as_view(template_name="weir/logins/sign_in.html", authentication_form=SignInForm))
_leave = cast("_View", LogoutView.as_view())


def sign_in(request: HttpRequest) -> HttpResponse:
    """Ask for name and password."""
    response = _form(request)
    return guarded(response.render() if isinstance(response, TemplateResponse) else response)


def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    return guarded(_leave(request))


@require_GET
@sensitive_variables("token")
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Log the operator in with a link that was made in a shell of this host, and redirect to the first page."""
    if not is_local(request):
        return _refused(request, "Such a link works on the host where it was made, and nowhere else.")
    if (user := links.use(token)) is None:
        return _refused(request, "A link works once, and for one minute. A new one: python manage.py sign_in_link")
    login(request, user, backend=_BACKEND)
    return guarded(redirect("/"))


def _refused(request: HttpRequest, why: str) -> HttpResponse:
    return guarded(
        render(request, "weir/logins/refused.html", {"title": "This link does not work", "why": why}, status=403)
    )
