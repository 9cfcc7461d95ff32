"""The operators' page of e-mails, where the unknown and the failed ones are resolved."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.views.main import ChangeList
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import Truncator
from django.utils.translation import ngettext

from postgres.admin import TableAdmin
from workers.mail import kinds, resolving
from workers.mail.models import Email, Resolution

SHOWN = 100  # characters of a text in a list
MOST_RESOLVED = 100  # as many as a person may look at on one page

if TYPE_CHECKING:
    ResolutionTabularInline = admin.TabularInline[Resolution, Email]
else:
    ResolutionTabularInline = admin.TabularInline  # takes no parameter when it runs


class ResolutionInline(ResolutionTabularInline):
    """What operators said about an e-mail, on its page."""

    model = Resolution
    fields = readonly_fields = ("resolved_at", "arrived", "who", "why", "state", "phase", "last_reply", "claimed_by")
    ordering = ("pk",)
    extra = 0
    can_delete = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        """Users that may see the e-mail may see them."""
        return True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """They are made by the actions and by `manage.py emails resolve`."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """They are a record."""
        return False


class Reason(forms.Form):
    """What an operator must say to resolve e-mails."""

    why = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="What you found out, and where: it is kept with each e-mail.",
    )


class EmailChangeList(ChangeList):
    """A page of the list, which finds what its e-mails are about in one query for each kind."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page's e-mails with their summaries."""
        super().get_results(request)
        self.result_list = _summarised(self.result_list)


@admin.register(Email)
class EmailAdmin(TableAdmin[Email]):
    """Lists the e-mails, the newest first. None is edited; operators with the permission resolve them."""

    list_display = (
        "id",
        "state",
        "kind",
        "label",
        "recipient",
        "attempts",
        "phase",
        "short_reply",
        "claimed_by",
        "created_at",
        "sending_since",
        "sent_at",
    )
    list_filter = ("state",)
    search_fields = ("key",)  # for the search box to be there: get_search_results searches labels
    search_help_text = "the beginning of what it is about, such as an order's number"
    fields = (
        "kind",
        "key",
        "label",
        "recipient",
        "state",
        "message_id",
        "created_at",
        "attempts",
        "next_attempt_at",
        "claimed_by",
        "claimed_until",
        "sending_since",
        "sent_at",
        "phase",
        "last_reply",
    )
    inlines = (ResolutionInline,)
    ordering = ("-pk",)
    sortable_by = ()
    actions = ("arrived", "send_again")

    def get_changelist(self, request: HttpRequest, **_kwargs: object) -> type[ChangeList]:  # noqa: ARG002  Django's signature
        """Have the list find all summaries of a page at once."""
        return EmailChangeList

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[Email],
        search_term: str,
    ) -> tuple[QuerySet[Email], bool]:
        """Search the labels, which each kind of e-mail has in a table of its own."""
        if not search_term:
            return queryset, False
        matches = Q(pk__in=())
        for kind, keys in kinds.search(search_term.strip().strip("\"'")).items():
            matches |= Q(kind=kind, key__in=keys)
        return queryset.filter(matches), False

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """Apps add them to the outbox."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Email | None = None) -> bool:  # noqa: ARG002  as above
        """A state set by hand could send an e-mail twice."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Email | None = None) -> bool:  # noqa: ARG002  as above
        """An e-mail that is forgotten could be queued again, and sent twice."""
        return False

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may use the actions."""
        return request.user.has_perm("mail.resolve_email")

    def has_view_permission(self, request: HttpRequest, obj: Email | None = None) -> bool:
        """Users that may resolve e-mails may see them."""
        return super().has_view_permission(request, obj) or self.has_resolve_permission(request)

    @admin.display
    def label(self, email: Email) -> str:
        """Return what it is about, such as the order's number."""
        return _summary(email).label

    @admin.display
    def recipient(self, email: Email) -> str:
        """Return the address that it goes to."""
        return _summary(email).recipient

    @admin.display(description="last reply")
    def short_reply(self, email: Email) -> str:
        """Return as much of the last reply as a column holds."""
        return Truncator(email.last_reply).chars(SHOWN)

    @admin.action(description="It arrived (of unknown ones)", permissions=["resolve"])
    def arrived(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Note that the chosen e-mails arrived, once the user has said why."""
        return self._resolve(request, chosen, arrived=True)

    @admin.action(description="Send again (unknown and failed ones)", permissions=["resolve"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Have the chosen e-mails sent again, once the user has said why."""
        return self._resolve(request, chosen, arrived=False)

    def _resolve(self, request: HttpRequest, chosen: QuerySet[Email], *, arrived: bool) -> HttpResponse | None:
        """Ask for confirmation and a reason; with both, resolve what was on that page."""
        is_confirmed = "confirmed" in request.POST
        reason = Reason(request.POST if is_confirmed else None)
        if is_confirmed and reason.is_valid():
            # Not those in `chosen`: one that was resolved meanwhile may not match the list's filter, and must be named.
            ids = [int(key) for key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME) if key.isdecimal()]
            self._confirmed(request, ids[:MOST_RESOLVED], arrived=arrived, why=reason.cleaned_data["why"])
            return None
        emails = list(chosen[: MOST_RESOLVED + 1])
        context = {
            **self.admin_site.each_context(request),
            **_divided(_summarised(emails[:MOST_RESOLVED]), arrived=arrived),
            "title": "It arrived" if arrived else "Send again",
            "opts": self.opts,
            "action": "arrived" if arrived else "send_again",
            "arrived": arrived,
            "most": MOST_RESOLVED if len(emails) > MOST_RESOLVED else None,
            "form": reason,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "back": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/mail/email/resolve.html", context)

    def _confirmed(self, request: HttpRequest, ids: Sequence[int], *, arrived: bool, why: str) -> None:
        """Resolve each by itself, with an entry in the log of the admin; say how many, and name the others."""
        done, refusals = 0, []
        for email_id in ids:
            try:
                with transaction.atomic():
                    email = resolving.resolve(email_id, arrived, request.user.get_username(), why)
                    self.log_change(request, email, f"{'It arrived' if arrived else 'Send again'}: {why}")
            except Email.DoesNotExist:
                refusals.append(f"There is no e-mail {email_id}.")
            except resolving.CannotBeResolved as error:
                refusals.append(str(error))
            else:
                done += 1
        if done:
            what = "said to have arrived" if arrived else "to be sent again"
            number = f"{done} {ngettext('e-mail is', 'e-mails are', done)}"
            self.message_user(request, f"{number} {what}.", messages.SUCCESS)
        for refusal in refusals:
            self.message_user(request, refusal, messages.ERROR)


def _divided(emails: Sequence[Email], *, arrived: bool) -> dict[str, list[Email]]:
    """Return the e-mails that can be resolved in this way, and the others."""
    allowed = resolving.RESOLVABLE[arrived]
    return {
        "resolvable": [email for email in emails if email.state in allowed],
        "others": [email for email in emails if email.state not in allowed],
    }


def _summarised(emails: Sequence[Email]) -> list[Email]:
    """Return the e-mails, each with its summary as an attribute."""
    listed = list(emails)
    summaries = kinds.summaries(listed)
    for email in listed:
        vars(email)["summary"] = summaries[email.pk]
    return listed


def _summary(email: Email) -> kinds.Summary:
    """Return the e-mail's summary, which the list has found already; the page of one e-mail has not."""
    if "summary" not in vars(email):
        _summarised([email])
    summary: kinds.Summary = vars(email)["summary"]
    return summary
