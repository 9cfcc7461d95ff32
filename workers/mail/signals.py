"""Signals by which applications hear what becomes of their e-mails."""

from django.dispatch import Signal

# An e-mail came back. Sent with `email` (its row, in the new state) and `report` (bounces.reports.Report), in the
# transaction that notes it: an exception of a receiver undoes both, and the report is handled again later.
email_bounced = Signal()
