"""Signals that tell applications what becomes of their e-mails."""

from django.dispatch import Signal

# Sent when an e-mail came back, with `email` (its row, in the new state) and `report` (bounces.reports.BounceReport).
# It is sent in the transaction that records the new state. An exception of a receiver rolls that transaction back, and
# the report is handled again later.
email_bounced = Signal()

# Sent when somebody unsubscribes by a link, with `subscription` (writing.unsubscribing.Subscription), in the
# transaction that records it. A receiver that has recorded it itself returns True: the outbox then does not.
unsubscribed = Signal()
