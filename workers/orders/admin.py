"""The operators' pages of orders, which are shipped there, and of shipped e-mails, which are resolved there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import Truncator

from postgres.short_paginator import ShortPaginator
from workers.orders import shipping
from workers.orders.models import Order, Resolution, ShippedEmail

SHOWN = 100  # characters of a text in a list
MOST_SHIPPED = 1_000
MOST_RESOLVED = 100  # as many as a person may look at on one page

if TYPE_CHECKING:
    OrderModelAdmin = admin.ModelAdmin[Order]
    ShippedEmailModelAdmin = admin.ModelAdmin[ShippedEmail]
    ResolutionTabularInline = admin.TabularInline[Resolution, ShippedEmail]
else:
    OrderModelAdmin = ShippedEmailModelAdmin = admin.ModelAdmin  # takes no parameter when it runs
    ResolutionTabularInline = admin.TabularInline


@admin.register(Order)
class OrderAdmin(OrderModelAdmin):
    """Orders may be added, changed until they are shipped, and shipped; their addresses may be put right later."""

    list_display = ("id", "number", "customer_email", "placed_at", "shipped_at")
    list_display_links = ("id", "number")
    list_filter = (("shipped_at", admin.EmptyFieldListFilter),)
    search_fields = ("number__startswith", "customer_email__startswith")
    search_help_text = "the beginning of the number or of the e-mail address"
    ordering = ("-pk",)
    paginator = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    actions = ("ship",)

    def get_fields(self, request: HttpRequest, obj: Order | None = None) -> tuple[str, ...]:  # noqa: ARG002  Django's signature
        """Show the times of one that exists; the database and `ship` give them to a new one."""
        return ("number", "customer_email", "placed_at", "shipped_at") if obj else ("number", "customer_email")

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        """An order whose e-mail is on its way or sent is only looked at."""
        return (obj is None or obj.is_correctable) and super().has_change_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Order | None = None) -> tuple[str, ...]:  # noqa: ARG002  Django's signature
        """What was shipped keeps its number; its address may have to be put right, to send a failed e-mail again."""
        return ("placed_at", "shipped_at", *(["number"] if obj and obj.shipped_at else []))

    def has_delete_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:  # noqa: ARG002  Django's signature
        """Orders are kept."""
        return False

    def save_model(self, request: HttpRequest, obj: Order, form: "forms.ModelForm[Order]", change: bool) -> None:
        """Write what was changed and nothing else, unless it was shipped, or its e-mail sent, since it was read."""
        if not change:
            super().save_model(request, obj, form, change)
            return
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        if not Order.objects.select_for_update().get(pk=obj.pk).is_correctable:
            raise PermissionDenied("It was shipped meanwhile.")
        Order.objects.filter(pk=obj.pk).update(**changed)

    @admin.action(description="Ship (and send the e-mail that says so)", permissions=["change"])
    def ship(self, request: HttpRequest, chosen: QuerySet[Order]) -> None:
        """Ship the chosen orders, those that were not shipped before."""
        ids = list(chosen.filter(shipped_at=None).values_list("pk", flat=True)[:MOST_SHIPPED])
        shipped = [order_id for order_id in ids if shipping.ship(order_id)]
        for order in Order.objects.filter(pk__in=shipped):
            self.log_change(request, order, "Shipped.")
        number = f"{len(shipped)} {'order' if len(shipped) == 1 else 'orders'}"
        self.message_user(request, f"{number} shipped.", messages.SUCCESS)
        if len(ids) == MOST_SHIPPED:
            more = f"At most {MOST_SHIPPED} are shipped at once: repeat it for the rest."
            self.message_user(request, more, messages.WARNING)


class ResolutionInline(ResolutionTabularInline):
    """What people said about an e-mail, on its page."""

    model = Resolution
    fields = readonly_fields = ("resolved_at", "arrived", "who", "why", "state", "phase", "last_reply", "claimed_by")
    ordering = ("pk",)
    extra = 0
    can_delete = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        """Whoever may see the e-mail may see them."""
        return True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """They are made by the actions and by `manage.py shipped_emails resolve`."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """What was said was said."""
        return False


class Reason(forms.Form):
    """What a person must say who resolves e-mails."""

    why = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="What you found out, and where: it is kept with each e-mail.",
    )


@admin.register(ShippedEmail)
class ShippedEmailAdmin(ShippedEmailModelAdmin):
    """Lists the e-mails, the newest first. Nothing is edited; who may resolve them says what became of them."""

    list_display = (
        "id",
        "state",
        "order",
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
    list_select_related = ("order",)
    search_fields = ("order__number__startswith",)
    search_help_text = "the beginning of the order's number"
    fields = (
        "order",
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
    paginator = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    actions = ("arrived", "send_again")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """They are made by shipping orders."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: ShippedEmail | None = None) -> bool:  # noqa: ARG002  as above
        """A state set by hand could send an e-mail twice."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ShippedEmail | None = None) -> bool:  # noqa: ARG002  as above
        """An order whose e-mail is forgotten could be sent it again."""
        return False

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may use the actions."""
        return request.user.has_perm("orders.resolve_shippedemail")

    def has_view_permission(self, request: HttpRequest, obj: ShippedEmail | None = None) -> bool:
        """Whoever may resolve e-mails may see them."""
        return super().has_view_permission(request, obj) or self.has_resolve_permission(request)

    @admin.display
    def recipient(self, email: ShippedEmail) -> str:
        """Return whom it is for."""
        return email.order.customer_email

    @admin.display(description="last reply")
    def short_reply(self, email: ShippedEmail) -> str:
        """Return as much of the last reply as a column holds."""
        return Truncator(email.last_reply).chars(SHOWN)

    @admin.action(description="It arrived (of unknown ones)", permissions=["resolve"])
    def arrived(self, request: HttpRequest, chosen: QuerySet[ShippedEmail]) -> HttpResponse | None:
        """Note that the chosen e-mails arrived, once the user has said why."""
        return self._resolve(request, chosen, arrived=True)

    @admin.action(description="Send again (unknown and failed ones)", permissions=["resolve"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[ShippedEmail]) -> HttpResponse | None:
        """Have the chosen e-mails sent again, once the user has said why."""
        return self._resolve(request, chosen, arrived=False)

    def _resolve(self, request: HttpRequest, chosen: QuerySet[ShippedEmail], *, arrived: bool) -> HttpResponse | None:
        """Ask for confirmation and a reason; with both, resolve what was on that page."""
        is_confirmed = "confirmed" in request.POST
        reason = Reason(request.POST if is_confirmed else None)
        if is_confirmed and reason.is_valid():
            # Not those in `chosen`: whoever was resolved meanwhile may not match the list's filter, and must be named.
            ids = [int(key) for key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME) if key.isdecimal()]
            self._confirmed(request, ids[:MOST_RESOLVED], arrived=arrived, why=reason.cleaned_data["why"])
            return None
        emails = list(chosen.select_related("order")[: MOST_RESOLVED + 1])
        allowed = shipping.RESOLVABLE[arrived]
        context = {
            **self.admin_site.each_context(request),
            "title": "It arrived" if arrived else "Send again",
            "opts": self.opts,
            "action": "arrived" if arrived else "send_again",
            "arrived": arrived,
            "resolvable": [email for email in emails[:MOST_RESOLVED] if email.state in allowed],
            "others": [email for email in emails[:MOST_RESOLVED] if email.state not in allowed],
            "most": MOST_RESOLVED if len(emails) > MOST_RESOLVED else None,
            "form": reason,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "back": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/orders/shippedemail/resolve.html", context)

    def _confirmed(self, request: HttpRequest, ids: Sequence[int], *, arrived: bool, why: str) -> None:
        """Resolve each by itself, with an entry in the log of the admin; say how many, and name the others."""
        done, refusals = 0, []
        for email_id in ids:
            try:
                with transaction.atomic():
                    email = shipping.resolve(email_id, arrived, request.user.get_username(), why)
                    self.log_change(request, email, f"{'It arrived' if arrived else 'Send again'}: {why}")
            except ShippedEmail.DoesNotExist:
                refusals.append(f"There is no shipped e-mail {email_id}.")
            except shipping.CannotBeResolved as error:
                refusals.append(str(error))
            else:
                done += 1
        what = "said to have arrived" if arrived else "to be sent again"
        if done:
            number = f"{done} e-mail is" if done == 1 else f"{done} e-mails are"
            self.message_user(request, f"{number} {what}.", messages.SUCCESS)
        for refusal in refusals:
            self.message_user(request, refusal, messages.ERROR)
