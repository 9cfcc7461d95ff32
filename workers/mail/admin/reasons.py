"""Acts of the admin that need a permission and a reason."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin import helpers
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import ngettext

from weir.postgres.admin import Row
from weir.workers.audit.acting_admin import ActingAdmin
from weir.workers.mail.actions import emails

MAY_ACT = emails.MAY_ACT
MOST_AT_ONCE = 100  # rows: as many as a person may look at on one page


class Reason(forms.Form):
    """What an operator must say."""

    why = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="What you found out, and where, or your reason: it is kept.",
    )


class ReasonedAdmin(ActingAdmin[Row]):
    """The pages of rows that users with the permission MAY_ACT add and take away with a reason; none is edited."""

    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    sortable_by: ClassVar[tuple[str, ...]] = ()
    add_form: "ClassVar[type[forms.BaseModelForm[Any]]]"

    def get_form(self, request: HttpRequest, obj: Row | None = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: ANN401  Django's signature
        """Ask what is to be added, and why."""
        return super().get_form(request, obj, change, **kwargs if obj else {**kwargs, "form": self.add_form})

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may use the actions."""
        return request.user.has_perm(MAY_ACT)

    def has_view_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        """Users that may act may see what they act on."""
        return super().has_view_permission(request, obj) or self.has_resolve_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Adding is an act."""
        return self.has_resolve_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        """What was done is not edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """An action takes them away, and asks for a reason."""
        return False

    def with_reason(
        self, request: HttpRequest, chosen: QuerySet[Row], title: str, act: Callable[[Row, str], bool]
    ) -> HttpResponse | None:
        """Ask for a reason; with one, call `act` with each row and the reason, and say for how many it was true."""
        is_confirmed = "confirmed" in request.POST
        reason = Reason(request.POST if is_confirmed else None)
        rows = list(chosen[:MOST_AT_ONCE])
        if is_confirmed and reason.is_valid():
            self._act(request, rows, title, lambda row: act(row, reason.cleaned_data["why"]))
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "action": request.POST["action"],
            "rows": rows,
            "form": reason,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "back": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/weir_mail/reason.html", context)

    def _act(self, request: HttpRequest, rows: Iterable[Row], title: str, act: Callable[[Row], bool]) -> None:
        done = sum(act(row) for row in rows)
        self.message_user(request, f"{title}: {done} {ngettext('row', 'rows', done)}.", messages.SUCCESS)
