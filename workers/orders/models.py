"""Order, the model of orders; `shipping.ship` ships one."""

from typing import Any, ClassVar, Self

from django.core.validators import validate_email
from django.db import models
from django.db.models import ProtectedError
from django.db.models.functions import Now
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email

SHIPPED = "order.shipped"  # the kind of the e-mail about the shipping; its key is the order's id


class OrderQuerySet(models.QuerySet["Order"]):
    """The queries of orders."""

    def unshipped(self) -> Self:
        """Return the orders that are not shipped yet."""
        return self.filter(shipped_at=None)


class Order(models.Model):
    """An order of a customer. Sending its e-mail never locks this table."""

    number = models.CharField(max_length=50, unique=True)
    customer_email = models.CharField(max_length=254, validators=[validate_email])  # for forms; mail checks again
    placed_at = models.DateTimeField(db_default=Now())
    shipped_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar = OrderQuerySet.as_manager()

    def __str__(self) -> str:
        return self.number

    @property
    def shipped_email(self) -> Email:
        """The current row of the e-mail that says that the order was shipped. Raises Email.DoesNotExist."""
        email: Email = Email.objects.get(kind=SHIPPED, key=str(self.pk))
        return email

    @property
    def is_correctable(self) -> bool:
        """Whether the order may be changed: it is not shipped, or its e-mail was not accepted, or came back."""
        if self.shipped_at is None:
            return True
        email = Email.objects.filter(kind=SHIPPED, key=str(self.pk)).first()
        return email is not None and not resolving.refusal(email, Act.CORRECT)


@receiver(pre_delete, sender=Order)
def _keep_what_an_email_is_about(instance: Order, **_signal: Any) -> None:
    """Refuse to delete an order that has an e-mail. The e-mail refers to it with its key, not with a foreign key."""
    if emails := list(Email.objects.filter(kind=SHIPPED, key=str(instance.pk))):
        raise ProtectedError(
            f"Order {instance.number} has an e-mail, which is the proof of what was sent.", set(emails)
        )
