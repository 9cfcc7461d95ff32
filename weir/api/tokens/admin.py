"""The admin page of tokens: it lists them. `manage.py tokens` creates and revokes them."""

from django.contrib import admin

from weir.api.tokens.models import Token
from weir.postgres.admin import ReadOnlyAdmin


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin[Token]):
    """Lists tokens in the order of their names; the secrets are not stored."""

    list_display = ("name", "scopes", "expires_at", "revoked_at", "last_used_at")
    ordering = ("name",)
    search_fields = ("name",)
