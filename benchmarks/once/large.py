"""A large outbox: e-mails of six kinds, nearly all of which are sent, filled by one transaction.

Of 5,000,000: 4,800,000 sent, 100,000 pending (90,000 for later, and one of the six kinds is paused), 50,000 failed,
1,000 unknown, 48,800 bounced, cancelled, suppressed or expired, and 200 held by workers that died. The states are
scattered over the whole time, so that neighbours in an index are seldom neighbours on disk. One e-mail in twenty-five
has the content that is transmitted.
"""

from django.db import connection, transaction

from benchmarks import database
from benchmarks.once import queues

KINDS = ("order.shipped", "bench.welcome", "bench.invoice", "bench.reminder", "bench.digest", "bench.password")
PAUSED = "bench.digest"
CUSTOMERS = 500_000
# A factor that scatters the states: it has no divisor in common with the number of e-mails.
SCATTER = 7_919
PER_MILLE = 1_000
PAUSE = "INSERT INTO weir_mail_pausedkind (kind, who, why) VALUES (%s, 'bench', 'bench') ON CONFLICT (kind) DO NOTHING"
FILL = """
    INSERT INTO weir_mail_email (
        kind, key, recipient, subject, context, state, message_id, created_at, attempts, next_attempt_at,
        claim_token, claimed_by, claimed_until, sending_since, sent_at, phase, last_reply, renderings, content_size,
        relay
    )
    SELECT
        kind, 'order-' || n, format(%(address)s, n %% %(customers)s), 'Your order ' || n,
        jsonb_build_object('order_id', n), state, format('<%%s-order-%%s@localhost>', kind, n), at, 0,
        CASE WHEN state = 'pending' AND place %% 10 > 0 THEN now() + interval '1 day' ELSE at END,
        CASE WHEN state IN ('claimed', 'sending', 'unknown') THEN gen_random_uuid() END, 'worker:1',
        CASE WHEN state = 'claimed' THEN at END,
        CASE WHEN state IN ('sending', 'unknown') THEN at END,
        CASE WHEN state IN ('sent', 'bounced') THEN at END,
        CASE WHEN state = 'unknown' THEN 'after_dot' ELSE '' END,
        CASE state WHEN 'failed' THEN '550 No such user' WHEN 'sent' THEN '250 OK' WHEN 'unknown' THEN 'No word'
            ELSE '' END,
        1, 1500, 'mail.example:25'
    FROM generate_series(1, %(emails)s::bigint) AS n,
        LATERAL (SELECT
            (%(kinds)s::text[])[1 + n %% 6] AS kind,
            n * %(scatter)s %% %(emails)s AS place,
            now() - (%(emails)s - n) * interval '3 seconds' AS at
        ) AS drawn,
        LATERAL (SELECT CASE
            WHEN place < 960 * %(unit)s THEN 'sent'
            WHEN place < 980 * %(unit)s THEN 'pending'
            WHEN place < 990 * %(unit)s THEN 'failed'
            WHEN place < 994 * %(unit)s THEN 'bounced'
            WHEN place < 997 * %(unit)s THEN 'cancelled'
            WHEN place < 998 * %(unit)s THEN 'suppressed'
            WHEN place < 999.76 * %(unit)s THEN 'expired'
            WHEN place < 999.96 * %(unit)s THEN 'unknown'
            WHEN place < 999.98 * %(unit)s THEN 'claimed'
            ELSE 'sending'
        END AS state) AS chosen
"""
FILL_RENDERINGS = """
    INSERT INTO weir_mail_rendering (email_id, content, rendered_at)
    SELECT id, convert_to(repeat(md5(id::text), 48), 'UTF8'), created_at
    FROM weir_mail_email WHERE id %% 25 = 0
"""


def fill(emails: int) -> None:
    """Fill the outbox with this many e-mails. Indexes are made at the end, which takes a fraction of the time."""
    queues.empty()
    drawn: dict[str, int | str | list[str]] = {
        "emails": emails,
        "customers": CUSTOMERS,
        "address": queues.ADDRESS,
        "kinds": list(KINDS),
        "scatter": SCATTER,
        "unit": emails // PER_MILLE,
    }
    with database.without_indexes("weir_mail_email"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(FILL, drawn)
        cursor.execute(FILL_RENDERINGS, ())
        cursor.execute(PAUSE, [PAUSED])
