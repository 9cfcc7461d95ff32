"""The admin of endpoints. It only shows them: pages, commands and the API change them."""

from django.contrib import admin

from weir.postgres.admin import ReadOnlyAdmin
from weir.workers.webhooks.models import Endpoint


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin[Endpoint]):
    """Lists the endpoints, by their names."""

    list_display = ("id", "name", "url", "secret", "paused_at", "pause_reason", "error")
    ordering = ("name",)
    sortable_by = ()
