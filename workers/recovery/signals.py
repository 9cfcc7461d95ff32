"""The signals that apps receive where PostgreSQL has forgotten something, is a copy, or its clock was stepped."""

from django.dispatch import Signal

# Sent with `since` (datetime) while nothing is granted, before anything goes on. A receiver may be called twice for one
# loss, as the process may be killed between two; it commits by itself, and returns how many e-mails became unknown, or
# None. What it raises ends the recovery, which begins again seconds later.
postgresql_went_back = Signal()

# Sent, as the first one and after it, where the database is a copy in another cluster, also if nothing is missing:
# transactions count anew, so an id of one that a row holds means nothing. With `first_ids`, by table: what this cluster
# writes has this id at least. A receiver that takes long renews the recovery's lease (`gate.renew`).
cluster_changed = Signal()

# Sent with `step` (timedelta) where PostgreSQL's clock was stepped by that much: forward, or back below 0. The gate is
# closed, and in the transaction of the signal all times are put right that count from before the step. What a receiver
# raises rolls back all of it, which is done again later.
postgresql_clock_stepped = Signal()
