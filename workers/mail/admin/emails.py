"""The operators' page of e-mails, where the unknown and the failed ones are resolved."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.text import Truncator
from django.utils.translation import ngettext

from weir.workers.audit import acting
from weir.workers.audit.acting_admin import ActingAdmin
from weir.workers.mail import addresses, resolving
from weir.workers.mail.actions import emails as of_emails
from weir.workers.mail.admin import previews
from weir.workers.mail.admin.finding import IndexedPaginator, KindFilter, may_see
from weir.workers.mail.admin.reasons import MAY_ACT, Reason
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.reports import searching
from weir.workers.mail.reports.why import why

SHOWN = 100  # characters of a text in a list
MOST_RESOLVED = 100  # as many as a person may look at on one page

if TYPE_CHECKING:
    ResolutionTabularInline = admin.TabularInline[Resolution, Email]
else:
    ResolutionTabularInline = admin.TabularInline  # takes no parameter when it runs


class ResolutionInline(ResolutionTabularInline):
    """What operators said about an e-mail, on its page."""

    model = Resolution
    fields = readonly_fields = ("resolved_at", "done", "who", "why", "state", "phase", "last_reply", "claimed_by")
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


@admin.register(Email)
class EmailAdmin(ActingAdmin[Email]):
    """Lists the e-mails, the newest first. None is edited; operators with the permission resolve them.

    Whoever may only resolve them neither sees the columns `finding.FOR_READERS`, nor finds e-mails by them.
    """

    list_display = (
        "id",
        "state",
        "kind",
        "recipient",
        "subject",
        "attempts",
        "phase",
        "short_reply",
        "claimed_by",
        "created_at",
        "sending_since",
        "sent_at",
    )
    paginator = IndexedPaginator
    list_filter = ("state", KindFilter)
    search_fields = ("key",)  # for the search box to be there: get_search_results says what is searched
    search_help_text = "how the address begins, the key, or the Message-ID"
    fields = (
        "kind",
        "key",
        "recipient",
        "recipient_name",
        "subject",
        "language",
        "context",
        "priority",
        "state",
        "waits_for",
        "message_id",
        "content_hash",
        "relay",
        "provider_id",
        "created_at",
        "attempts",
        "next_attempt_at",
        "expires_at",
        "claimed_by",
        "claimed_until",
        "sending_since",
        "sent_at",
        "phase",
        "last_reply",
    )
    readonly_fields = ("waits_for",)
    inlines = (ResolutionInline,)
    ordering = ("-pk",)
    sortable_by = ()
    actions = ("arrived", "send_again", "give_up", "cancel", "render_anew")

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that show what is transmitted."""
        page = self.admin_site.admin_view(partial(previews.page, site=self.admin_site))
        frame = self.admin_site.admin_view(previews.frame)
        own = [
            path("<int:email_id>/preview/", page, name="weir_mail_email_preview"),
            path("<int:email_id>/preview/html/", frame, name="weir_mail_email_preview_html"),
        ]
        return [*own, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Link what is transmitted, for users that may read it."""
        may_read = {"may_read": request.user.has_perm(previews.MAY_READ)}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **may_read})

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Return the columns that the user may see."""
        return [name for name in super().get_list_display(request) if may_see(request, str(name))]

    def get_fields(self, request: HttpRequest, obj: Email | None = None) -> list[Any]:
        """Return the fields that the user may see."""
        return [name for name in super().get_fields(request, obj) if may_see(request, str(name))]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow what Django does, which is any column of its own in the URL of a list, but for those not seen."""
        return may_see(request, lookup.partition(LOOKUP_SEP)[0]) and super().lookup_allowed(lookup, value, request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Email], search_term: str
    ) -> tuple[QuerySet[Email], bool]:
        """Search by what indexes find: how the address begins, for who may see it, the key, the Message-ID."""
        if not search_term:
            return queryset, False
        text = search_term.strip().strip("\"'")
        return searching.matching(queryset, text, by_address=may_see(request, "recipient")), False

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
        return request.user.has_perm(MAY_ACT)

    def has_view_permission(self, request: HttpRequest, obj: Email | None = None) -> bool:
        """Users that may resolve e-mails may see them."""
        return super().has_view_permission(request, obj) or self.has_resolve_permission(request)

    @admin.display(description="waits for")
    def waits_for(self, email: Email) -> str:
        """Return what is in its way."""
        blockers = ((it.text, f" (until {it.until:%Y-%m-%d %H:%M:%S} UTC)" if it.until else "") for it in why(email))
        return format_html_join(mark_safe("<br>"), "{}{}", blockers) or "-"

    @admin.display(description="last reply")
    def short_reply(self, email: Email) -> str:
        """Return as much of the last reply as a column holds."""
        return Truncator(email.last_reply).chars(SHOWN)

    @admin.action(description="It arrived (of unknown ones)", permissions=["resolve"])
    def arrived(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Note that the chosen e-mails arrived, once the user has said why."""
        return self._resolve(request, chosen, Act.ARRIVED)

    @admin.action(description="Send again (those that ended unsent, or came back)", permissions=["resolve"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Have the chosen e-mails sent again, once the user has said why."""
        return self._resolve(request, chosen, Act.RESEND)

    @admin.action(description="Leave unsent (of unknown ones)", permissions=["resolve"])
    def give_up(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Close the chosen e-mails, once the user has said why."""
        return self._resolve(request, chosen, Act.GIVE_UP)

    @admin.action(description="Cancel (those that wait)", permissions=["resolve"])
    def cancel(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Have the chosen e-mails not sent, once the user has said why."""
        return self._resolve(request, chosen, Act.CANCEL)

    @admin.action(description="Render anew (those that were not accepted)", permissions=["resolve"])
    def render_anew(self, request: HttpRequest, chosen: QuerySet[Email]) -> HttpResponse | None:
        """Have the chosen e-mails rendered anew and sent, once the user has said why."""
        return self._resolve(request, chosen, Act.CORRECT)

    def _resolve(self, request: HttpRequest, chosen: QuerySet[Email], act: Act) -> HttpResponse | None:
        """Ask for confirmation and a reason; with both, resolve what was on that page."""
        is_confirmed = "confirmed" in request.POST
        reason = Reason(request.POST if is_confirmed else None)
        if is_confirmed and reason.is_valid():
            # Not those in `chosen`: one that was resolved meanwhile may not match the list's filter, and must be named.
            ids = [int(key) for key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME) if key.isdecimal()]
            seen = {email_id: request.POST.get(f"seen-{email_id}") for email_id in ids[:MOST_RESOLVED]}
            self._confirmed(request, seen, act, why=reason.cleaned_data["why"])
            return None
        emails = list(chosen[: MOST_RESOLVED + 1])
        context = {
            **self.admin_site.each_context(request),
            **_divided(emails[:MOST_RESOLVED], act),
            "title": act.label.capitalize(),
            "opts": self.opts,
            "action": request.POST["action"],
            "act": act.value,
            "allowed": resolving.ALLOWED[act],
            "most": MOST_RESOLVED if len(emails) > MOST_RESOLVED else None,
            "form": reason,
            "may_read": request.user.has_perm(previews.MAY_READ),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "back": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/weir_mail/email/resolve.html", context)

    def _confirmed(self, request: HttpRequest, seen: Mapping[int, str | None], act: Act, *, why: str) -> None:
        """Resolve each by itself, with an entry in the log of the admin; say how many, and name the others."""
        actor = self.actor(request)
        done, refusals = 0, []
        for email_id, version in seen.items():
            try:
                with transaction.atomic():
                    email = of_emails.resolve(actor, email_id, act, why=why, seen=version)
                    reason = addresses.redacted(why, email.recipient)  # the log is kept when it is forgotten
                    self.log_change(request, email, f"{act.label.capitalize()}: {reason}")
            except Email.DoesNotExist:
                refusals.append(f"There is no e-mail {email_id}.")
            except (resolving.CannotBeResolved, acting.Changed) as error:
                refusals.append(str(error))
            else:
                done += 1
        if done:
            number = f"{done} {ngettext('e-mail', 'e-mails', done)}"
            self.message_user(request, f"{number}: {act.label}.", messages.SUCCESS)
        for refusal in refusals:
            self.message_user(request, refusal, messages.ERROR)


def _divided(emails: Sequence[Email], act: Act) -> dict[str, list[Any]]:
    """Return the e-mails that can be resolved in this way, with what is seen of them, and the others."""
    resolvable = [email for email in emails if not resolving.refusal(email, act)]
    return {
        "resolvable": resolvable,
        "versions": [(email.pk, of_emails.version_of(email)) for email in resolvable],
        "others": [email for email in emails if email not in resolvable],
    }
