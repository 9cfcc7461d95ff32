"""Pages of the admin whose actions change something, as those of commands and of the API do."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from weir.postgres.admin import Row, TableAdmin
from weir.workers.audit import acting
from weir.workers.audit.models import Door


class ActingAdmin(TableAdmin[Row]):
    """Says in a message what was refused."""

    def actor(self, request: HttpRequest) -> acting.Actor:
        """Return the user."""
        return acting.of_request(request, Door.ADMIN)

    def response_action(self, request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse | None:
        """Do what the user has chosen, and go back to the list where it is refused."""
        try:
            return super().response_action(request, *arguments, **named)
        except acting.Refused as refusal:
            return self._refused(request, refusal)

    def changeform_view(self, request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        """Save what the user has written, and show the form again where it is refused."""
        try:
            return super().changeform_view(request, *arguments, **named)
        except acting.Refused as refusal:
            return self._refused(request, refusal)

    def _refused(self, request: HttpRequest, refusal: acting.Refused) -> HttpResponse:
        self.message_user(request, str(refusal), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
