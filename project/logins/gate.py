"""The limit on attempts to log in: an authentication backend before all others, and forms that say how long to wait."""

from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth import get_user_model
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables

from project.logins import throttle

log = structlog.get_logger(__name__)

WAIT_S = "weir.login_wait_s"  # the key in `request.META` of the seconds until the next attempt


class Gate:
    """Logs no user in, but refuses clients that try too often: then Django asks no other backend about the password.

    This class has no `get_user`, because `force_login` of Django's test client takes the first backend that has one.
    """

    @sensitive_variables()  # error pages show the variables of each function in a traceback
    def authenticate(self, request: HttpRequest | None, username: str | None = None, **credentials: Any) -> None:
        """Raise PermissionDenied for an attempt that comes too soon. An attempt without a request is never refused."""
        name = credentials.get(get_user_model().USERNAME_FIELD) if username is None else username
        if request is None or name is None:
            return
        wait_s = throttle.take(throttle.network_of(request), name)
        if wait_s:
            request.META[WAIT_S] = wait_s
            log.warning("login_throttled", address=throttle.network_of(request), seconds=round(wait_s))
            raise PermissionDenied

    @sensitive_variables()
    async def aauthenticate(self, request: HttpRequest | None, **credentials: Any) -> None:
        await sync_to_async(self.authenticate)(request, **credentials)


class _SaysHowLongToWait(AuthenticationForm):
    """A form that says how long to wait, if the gate has refused to look at the password."""

    def get_invalid_login_error(self) -> ValidationError:
        wait_s = self.request.META.get(WAIT_S) if self.request else None
        if wait_s is None:
            return super().get_invalid_login_error()
        return ValidationError(f"Too many attempts: try again in {wait_s:.0f} seconds.", code="throttled")


class SignInForm(_SaysHowLongToWait):
    """The login form of the operators' pages."""


class LoginForm(_SaysHowLongToWait, AdminAuthenticationForm):
    """The login form of the admin."""
