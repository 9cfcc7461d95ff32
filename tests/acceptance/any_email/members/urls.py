"""The URLs of the project: those of allauth, Django's own password reset, and two views."""

from collections.abc import Callable

from django.contrib import admin
from django.contrib.auth import views
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from tests.acceptance.any_email.members.tasks import send_receipt


def from_anywhere(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Take forms from anywhere, as Django's own client for tests does: this middleware is the first."""

    def taken(request: HttpRequest) -> HttpResponse:
        request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
        return get_response(request)

    return taken


def receipt(request: HttpRequest) -> HttpResponse:
    """Have a receipt sent: the answer says that the broker has the task."""
    send_receipt.delay(request.POST["number"])
    return HttpResponse("It will be sent.")


def failing(request: HttpRequest) -> HttpResponse:
    """Send a message, and fail: Django rolls the request's transaction back."""
    send_mail("Paid", "You have paid.", None, [f"failing.{request.POST['number']}@members.example"])
    raise RuntimeError("The card was refused.")


urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("reset/", views.PasswordResetView.as_view(), name="password_reset"),
    path("reset/done/", views.PasswordResetDoneView.as_view(), name="password_reset_done"),
    path("reset/<uidb64>/<token>/", views.PasswordResetConfirmView.as_view(), name="password_reset_confirm"),
    path("receipt/", receipt),
    path("failing/", failing),
]
