"""What operators search e-mails by, so that an index finds it."""

from django.db.models import Q, QuerySet

from workers.mail import kinds
from workers.mail.models import LOWER_RECIPIENT, Email


def matching(emails: QuerySet[Email], text: str) -> QuerySet[Email]:
    """Return those whose address begins so, or whose key or Message-ID is this."""
    begins = Q(lower_recipient__startswith=text.lower())
    found: QuerySet[Email] = emails.alias(lower_recipient=LOWER_RECIPIENT).filter(
        begins | Q(kind__in=kinds.names(), key=text) | Q(message_id=text)
    )
    return found
