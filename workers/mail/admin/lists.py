"""The operators' pages of what e-mails have in common: paused kinds, the suppression list, held relays, and acts."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from weir.postgres.admin import ReadOnlyAdmin
from weir.workers.mail import addresses, kinds, suppression
from weir.workers.mail.actions import addresses as listed
from weir.workers.mail.actions import kinds as of_kinds
from weir.workers.mail.admin.reasons import ReasonedAdmin
from weir.workers.mail.models import MailAct, PausedKind, RelayHold, Suppression

if TYPE_CHECKING:
    PausedKindModelForm = forms.ModelForm[PausedKind]
    SuppressionModelForm = forms.ModelForm[Suppression]
else:
    PausedKindModelForm = SuppressionModelForm = forms.ModelForm  # takes no parameter when it runs

WHY = forms.Textarea(attrs={"rows": 3, "cols": 80})


class PausedKindForm(PausedKindModelForm):
    """Which kind is paused, and why."""

    kind = forms.ChoiceField(choices=lambda: [(name, name) for name in kinds.names()])
    why = forms.CharField(widget=WHY)

    class Meta:
        model = PausedKind
        fields = ("kind", "why")


class SuppressionForm(SuppressionModelForm):
    """Which address is not written to, and why."""

    address = forms.CharField(max_length=addresses.LONGEST)
    why = forms.CharField(widget=WHY)

    class Meta:
        model = Suppression
        fields = ("address", "why")

    def clean_address(self) -> str:
        """Return it as it is stored; refuse one that is none, or that is on the list."""
        try:
            address = addresses.canonical(self.cleaned_data["address"])
        except addresses.CannotBeWritten as error:
            raise ValidationError(str(error)) from error
        if suppression.reasons([address]):
            raise ValidationError("It is on the list.")
        return address


@admin.register(PausedKind)
class PausedKindAdmin(ReasonedAdmin[PausedKind]):
    """The kinds of which no e-mail is begun: paused by adding, resumed by an action."""

    list_display = ("kind", "paused_at", "who", "why")
    ordering = ("pk",)
    actions = ("resume",)
    add_form = PausedKindForm

    def save_model(self, request: HttpRequest, obj: PausedKind, form: Any, change: bool) -> None:  # noqa: ANN401, ARG002  as above
        """Pause it, in the user's name."""
        of_kinds.pause(self.actor(request), obj.kind, why=obj.why)

    @admin.action(description="Resume", permissions=["resolve"])
    def resume(self, request: HttpRequest, chosen: QuerySet[PausedKind]) -> HttpResponse | None:
        """Resume sending the chosen kinds, once the user has said why."""
        actor = self.actor(request)
        return self.with_reason(request, chosen, "Resume", lambda row, why: of_kinds.resume(actor, row.kind, why=why))


@admin.register(Suppression)
class SuppressionAdmin(ReasonedAdmin[Suppression]):
    """The addresses that are not written to."""

    list_display = ("shown", "since", "why")
    search_fields = ("address_hash",)  # for the search box to be there: get_search_results says what is searched
    search_help_text = "the whole address, also one that was forgotten"
    actions = ("release",)
    add_form = SuppressionForm

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[Suppression],
        search_term: str,
    ) -> tuple[QuerySet[Suppression], bool]:
        """Search by the address, as its hash."""
        if not search_term:
            return queryset, False
        return queryset.filter(address_hash=suppression.address_hash(addresses.as_stored(search_term))), False

    def save_model(self, request: HttpRequest, obj: Suppression, form: Any, change: bool) -> None:  # noqa: ANN401, ARG002  as above
        """Put it on the list, in the user's name."""
        listed.suppress(self.actor(request), obj.address, why=obj.why)
        obj.pk = Suppression.objects.values_list("pk", flat=True).get(
            address_hash=suppression.address_hash(obj.address)
        )

    def log_addition(self, request: HttpRequest, obj: Suppression, message: Any) -> LogEntry:  # noqa: ANN401  as above
        """Log it by its hash: the log is kept when the address is forgotten."""
        hashed = Suppression(pk=obj.pk, address_hash=suppression.address_hash(obj.address), why="added")
        return super().log_addition(request, hashed, message)

    @admin.display(description="address")
    def shown(self, entry: Suppression) -> str:
        """Return the address, or its hash where it was forgotten."""
        return entry.address or entry.address_hash

    @admin.action(description="Take off the list", permissions=["resolve"])
    def release(self, request: HttpRequest, chosen: QuerySet[Suppression]) -> HttpResponse | None:
        """Have the chosen addresses written to again, once the user has said why."""
        actor = self.actor(request)
        return self.with_reason(
            request,
            chosen,
            "Take off the list",
            lambda row, why: listed.release(actor, row.address_hash, why=why),
        )


@admin.register(RelayHold)
class RelayHoldAdmin(ReadOnlyAdmin[RelayHold]):
    """The relays that cannot be used at the moment, since when, and why."""

    list_display = ("relay", "since", "tried_at", "reason")
    ordering = ("pk",)


@admin.register(MailAct)
class MailActAdmin(ReadOnlyAdmin[MailAct]):
    """Who paused, resumed, suppressed, released and had forgotten what, and why; the newest first."""

    list_display = ("acted_at", "what", "about", "who", "why")
    list_filter = ("what",)
    search_fields = ("about__exact",)
    search_help_text = "the kind, or the hash of the address"
    ordering = ("-pk",)
    sortable_by = ()
