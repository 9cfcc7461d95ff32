"""Searches for e-mails on behalf of operators. Each way uses an index, whatever PostgreSQL's statistics say."""

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Lower

from weir.workers.mail import addresses, kinds
from weir.workers.mail.models import LOWER_RECIPIENT, Email

MOST_FOUND = 1_000  # e-mails that a search finds, at most: no person reads more


def to(emails: QuerySet[Email], address: str) -> QuerySet[Email]:
    """Return the e-mails to this address, however it is written, or to addresses that begin with it, by address."""
    # PostgreSQL writes both in lower case: Python does so otherwise with some letters, such as a final sigma.
    begins = Q(lower_recipient__startswith=Lower(Value(addresses.as_stored(address))))
    found: QuerySet[Email] = emails.alias(lower_recipient=LOWER_RECIPIENT).filter(begins)
    return found.order_by(LOWER_RECIPIENT, "pk")


def matching(emails: QuerySet[Email], text: str, *, most: int = MOST_FOUND) -> QuerySet[Email]:
    """Return the e-mails whose address begins with the text, or whose key or Message-ID is the text.

    Each of these three ways finds at most `most`. Each is a short query of its own: in one query, PostgreSQL would
    read the table in the order of the list if it expected many matches.
    """
    angled = f"<{text.strip('<>')}>"
    ways = (
        to(Email.objects.all(), text),
        Email.objects.filter(kind__in=kinds.names(), key=text).order_by("kind"),
        Email.objects.filter(message_id=angled).order_by("message_id"),
    )
    found = {pk for way in ways for pk in way.values_list("pk", flat=True)[:most]}
    return emails.filter(pk__in=found)
