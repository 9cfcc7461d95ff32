"""The Django admin of orders, in which staff ship them."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import ngettext

from weir.postgres.admin import TableAdmin
from weir.workers.audit import acting
from weir.workers.audit.models import Door
from weir.workers.mail.actions import emails
from weir.workers.mail.models import Act
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

if TYPE_CHECKING:
    from django import forms

MOST_SHIPPED = 1_000


@admin.register(Order)
class OrderAdmin(TableAdmin[Order]):
    """Staff may add and ship orders, and change them until they are shipped. Addresses may be corrected later."""

    list_display = ("id", "number", "customer_email", "placed_at", "shipped_at")
    list_display_links = ("id", "number")
    list_filter = (("shipped_at", admin.EmptyFieldListFilter),)
    search_fields = ("number__startswith", "customer_email__startswith")
    search_help_text = "the beginning of the number or of the e-mail address"
    ordering = ("-pk",)
    sortable_by = ()
    actions = ("ship",)

    def get_fields(self, request: HttpRequest, obj: Order | None = None) -> tuple[str, ...]:  # noqa: ARG002  Django's signature
        """Show the times of an existing order. The form of a new one lacks them: the database and `ship` set them."""
        return ("number", "customer_email", "placed_at", "shipped_at") if obj else ("number", "customer_email")

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        """Allow no change of an order whose e-mail is on its way, unknown or sent."""
        return (obj is None or obj.is_correctable) and super().has_change_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Order | None = None) -> tuple[str, ...]:  # noqa: ARG002  Django's signature
        """Make the number of a shipped order read-only, but not its address: a failed e-mail may need another one."""
        return ("placed_at", "shipped_at", *(["number"] if obj and obj.shipped_at else []))

    def has_delete_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:  # noqa: ARG002  Django's signature
        """Allow no deletion: orders are kept."""
        return False

    def save_model(self, request: HttpRequest, obj: Order, form: "forms.ModelForm[Order]", change: bool) -> None:
        """Write only the changed fields. Raises PermissionDenied if the order is no longer correctable.

        A changed address of a shipped order also corrects its e-mail.
        """
        if not change:
            super().save_model(request, obj, form, change)
            return
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        if not Order.objects.select_for_update().get(pk=obj.pk).is_correctable:
            raise PermissionDenied("Its e-mail is on its way meanwhile.")
        Order.objects.filter(pk=obj.pk).update(**changed)
        if obj.shipped_at and "customer_email" in changed:
            why, to = "The order's address was corrected.", changed["customer_email"]
            emails.resolve(self.actor(request), obj.shipped_email.pk, Act.CORRECT, why=why, to=to)

    def actor(self, request: HttpRequest) -> acting.Actor:
        """Return the user as an actor who may correct the order's e-mail, and redirect it to another address."""
        return replace(acting.of_request(request, Door.ADMIN), may={emails.MAY_ACT, emails.MAY_REDIRECT}.__contains__)

    def changeform_view(self, request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        """Save the form; if an action is refused, show the refusal and the form again."""
        try:
            return super().changeform_view(request, *arguments, **named)
        except acting.ActRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    @admin.action(description="Ship (and send the e-mail that says so)", permissions=["change"])
    def ship(self, request: HttpRequest, chosen: QuerySet[Order]) -> None:
        """Ship the chosen orders that were not shipped before."""
        ids = list(chosen.filter(shipped_at=None).values_list("pk", flat=True)[:MOST_SHIPPED])
        shipped = [order_id for order_id in ids if shipping.ship(order_id)]
        for order in Order.objects.filter(pk__in=shipped):
            self.log_change(request, order, "Shipped.")
        number = f"{len(shipped)} {ngettext('order', 'orders', len(shipped))}"
        self.message_user(request, f"{number} shipped.", messages.SUCCESS)
        if len(ids) == MOST_SHIPPED:
            more = f"At most {MOST_SHIPPED} are shipped at once: repeat it for the rest."
            self.message_user(request, more, messages.WARNING)
