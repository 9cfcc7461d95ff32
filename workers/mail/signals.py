"""Signals that tell applications what becomes of their e-mails."""

from django.dispatch import Signal

# An e-mail came back. Sent with `email` (its row, in the new state) and `report` (bounces.reports.BounceReport), in the
# transaction that records it: an exception of a receiver undoes both, and the report is handled again later.
email_bounced = Signal()
