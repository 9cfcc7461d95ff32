"""How operators search for e-mails: each way has an index, whatever the statistics."""

from django.db.models import Q, QuerySet

from weir.workers.mail import addresses, kinds
from weir.workers.mail.models import LOWER_RECIPIENT, Email

MOST_FOUND = 1_000  # e-mails; no person reads more of a search


def to(emails: QuerySet[Email], address: str) -> QuerySet[Email]:
    """Return those to the address, however it is written, or to addresses that begin so, in the order of addresses."""
    begins = Q(lower_recipient__startswith=addresses.as_stored(address).lower())
    found: QuerySet[Email] = emails.alias(lower_recipient=LOWER_RECIPIENT).filter(begins)
    return found.order_by(LOWER_RECIPIENT, "pk")


def matching(emails: QuerySet[Email], text: str) -> QuerySet[Email]:
    """Return those whose address begins with the text, or whose key or Message-ID it is: the first MOST_FOUND of each.

    Three short queries, because PostgreSQL would read the table in the order of the list instead if it expects many.
    """
    angled = f"<{text.strip('<>')}>"
    ways = (
        to(Email.objects.all(), text),
        Email.objects.filter(kind__in=kinds.names(), key=text).order_by("kind"),
        Email.objects.filter(message_id=angled).order_by("message_id"),
    )
    found = {pk for way in ways for pk in way.values_list("pk", flat=True)[:MOST_FOUND]}
    return emails.filter(pk__in=found)
