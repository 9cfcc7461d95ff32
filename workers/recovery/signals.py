"""The signals that apps receive when PostgreSQL has forgotten something, is a copy, or its clock was stepped."""

from django.dispatch import Signal

# Sent with `since` (datetime) while nothing is granted, before anything goes on. A receiver may be called twice for one
# loss, because the process may be killed between two; it commits by itself, and returns how many e-mails became
# unknown, or None. An error that it raises ends the recovery, which begins again seconds later.
postgresql_went_back = Signal()

# Sent, after the signal above, if the database is a copy in another cluster, even if nothing is missing. Transactions
# are numbered anew there, so the id of a transaction in a row means nothing. `first_ids` has, by table, the lowest id
# that this cluster gives to a row. A receiver that takes long renews the recovery's lease (`gate.renew`).
cluster_changed = Signal()

# Sent with `step` (timedelta) when PostgreSQL's clock was stepped by that much: forward, or back below 0. The gate is
# closed, and in the transaction of the signal all times that count from before the step are put right. A receiver's
# error rolls back all of it, which is done again later.
postgresql_clock_stepped = Signal()
