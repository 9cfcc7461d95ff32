"""Signals for apps: PostgreSQL has forgotten commits, the database is a copy, or PostgreSQL's clock was stepped."""

from django.dispatch import Signal

# Sent with `since` (datetime) while nothing is granted, before anything goes on. A receiver may be called twice for one
# loss, because the process may be killed during the recovery. It must commit its own work, and return how many e-mails
# became unknown, or None. An error that it raises ends the recovery, which begins again seconds later.
postgresql_went_back = Signal()

# Sent, after the signal above, if the database is a copy in another cluster, even if nothing is missing. The other
# cluster numbers its transactions anew, so a transaction id in a row has no meaning there. `first_ids` has, for each
# table, the lowest id that the new cluster gives to a row. A receiver that takes long must renew the recovery's lease
# (`gate.renew`).
cluster_changed = Signal()

# Sent with `step` (timedelta) after PostgreSQL's clock was stepped: forward by a positive, back by a negative step. The
# gate is closed. The signal is sent in a transaction in which all stored times that still matter are corrected. An
# error in a receiver rolls back this transaction, which is repeated later.
postgresql_clock_stepped = Signal()
