"""The admin page of tokens: it lists, creates and revokes them. A secret is shown once, and stored nowhere."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize

from weir.api.tokens import actions
from weir.api.tokens.models import LONGEST_NAME, Token
from weir.api.tokens.scopes import SCOPES
from weir.conf.texts.rates import parse_rate
from weir.postgres.admin import ActionsAdmin
from weir.workers.audit import acting
from weir.workers.audit.acting_admin import ActingAdmin
from weir.workers.audit.models import Door


class NewToken(forms.ModelForm):  # type: ignore[type-arg]  # it cannot be subscripted at run time
    """What a new token may, and for how long."""

    name = forms.CharField(max_length=LONGEST_NAME, help_text="of the program, as the audit trail names it")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {what}") for scope, what in SCOPES.items()], widget=forms.CheckboxSelectMultiple
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=actions.LONGEST_LIFE.days,
        initial=actions.DEFAULT_LIFE.days,
        help_text="until it expires",
    )
    rate = forms.CharField(initial=actions.DEFAULT_RATE, max_length=50, help_text="of its requests: 20/s")
    why = forms.CharField(required=False, max_length=2_000, help_text="It is kept.")

    class Meta:
        model = Token
        fields = ("name", "scopes")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        try:
            actions.check_name(name)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        if Token.objects.filter(name=name).exists():
            raise forms.ValidationError("There is a token of this name already, or was.")
        return name

    def clean_rate(self) -> str:
        rate: str = self.cleaned_data["rate"]
        try:
            parse_rate(rate)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        return rate

    def clean(self) -> dict[str, Any]:
        """Refuse scopes that the user does not have."""
        found: dict[str, Any] = super().clean() or self.cleaned_data
        user = getattr(self, "user", None)
        if lacking := [scope for scope in found.get("scopes", ()) if user and not user.has_perm(scope)]:
            raise forms.ValidationError(f"You lack {', '.join(lacking)}: nobody can give what they do not have.")
        return found


@admin.register(Token)
class TokenAdmin(ActingAdmin[Token], ActionsAdmin[Token]):
    """Lists tokens. A new one is shown once; none is edited: it is revoked, and another one created."""

    form = NewToken
    list_display = ("name", "scopes", "expires_at", "revoked_at", "last_used_at")
    ordering = ("name",)
    search_fields = ("name",)
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(actions.CREATE.permission)

    def get_form(self, request: HttpRequest, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  Django's signature
        """Have the form know who fills it in."""
        form = super().get_form(request, *arguments, **named)
        return type("NewToken", (form,), {"user": request.user})

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:  # noqa: ANN401  as above
        """Create a token, outside of the transaction that Django would have around it, and show its secret."""
        form = self.get_form(request)(request.POST) if request.method == "POST" else None
        if form is None or not self.has_add_permission(request) or not form.is_valid():
            return super().add_view(request, form_url, extra_context)
        try:
            created = actions.create(acting.of_request(request, Door.ADMIN), **_wanted(form.cleaned_data))
        except acting.Refused as refusal:
            return self._refused(request, refusal)
        shows = {**self.admin_site.each_context(request), "title": f"Token {created.token.name}", "created": created}
        response = render(request, "weir/tokens/created.html", shows)
        response.headers["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        names = list(chosen.values_list("name", flat=True))
        done = sum(actions.revoke(self.actor(request), name) for name in names)
        self.message_user(request, f"{done} token{pluralize(done)} revoked.", messages.SUCCESS)


def _wanted(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": values["name"],
        "scopes": values["scopes"],
        "life": timedelta(days=values["days"]),
        "rate": values["rate"],
        "why": values["why"],
    }
