"""What an outbox costs while its e-mails grow, nearly all of which are sent: to queue, to claim, and each statement.

The statements are those that mailers, commands and pages execute; their times are PostgreSQL's own.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from uuid import uuid4

from django.db import connection

from benchmarks import database
from benchmarks.growth import curves
from benchmarks.growth.curves import ROUNDS, Growth, takes_ms
from benchmarks.once import large, plans, queues
from weir.workers.mail import outbox
from weir.workers.mail.sending import leases
from weir.workers.mail.sending.source import BATCH
from weir.workers.orders.models import SHIPPED, Order

TIMES = 3  # of each statement
EXECUTION_MS = re.compile(r"^Execution Time: ([\d.]+) ms$", re.MULTILINE)
READS_ALL = re.compile(r"Seq Scan on weir_mail_email\b")
# For all claims of a measurement.
DUE = f"""
    INSERT INTO weir_mail_email (
        kind, key, recipient, context, state, message_id, attempts, claimed_by, phase, last_reply
    )
    SELECT '{SHIPPED}', 'due-' || n, format('{queues.ADDRESS}', n), '{{}}', 'pending', '<due-' || n || '@localhost>', 0,
        '', '', ''
    FROM generate_series(1, {BATCH * (1 + ROUNDS)}) AS n
"""
_new = count()


def _fill(_before: int, size: int) -> None:
    large.fill(size)
    database.run_at_length(DUE)
    database.run_at_length("VACUUM ANALYZE weir_mail_email, weir_mail_rendering")


def _costs(size: int, folder: Path) -> Iterator[tuple[str, float]]:
    reading_all = []
    with (folder / f"emails_at_{size}.txt").open("w", encoding="utf-8") as out:
        for statement in plans.statements():
            found = [database.explain(statement.text, statement.parameters, statement.before) for _ in range(TIMES)]
            out.write(f"-- {statement.title}\n{found[-1]}\n\n")
            if READS_ALL.search(found[-1]):
                reading_all.append(statement.title)
            yield statement.title, median(float(ms) for plan in found for ms in EXECUTION_MS.findall(plan))
    print("plans that read all e-mails:", ", ".join(reading_all) or "none", flush=True)
    order = Order.objects.create(number=f"G-{size}", customer_email=queues.ADDRESS % 1)
    yield "send_once", takes_ms(lambda: outbox.send_once(
        SHIPPED, f"new-{next(_new)}", to=order.customer_email, context={"order_id": order.pk}
    ))  # fmt: skip
    yield f"claim_by_{BATCH}", takes_ms(lambda: leases.claim(BATCH, uuid4()))


def _empty() -> None:
    queues.empty()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_mail_pausedkind")


EMAILS = Growth(
    name="emails",
    of="e-mails",
    sizes=(5_000, 50_000, 500_000, 5_000_000),
    fill=_fill,
    costs=_costs,
    empty=_empty,
)
measure = partial(curves.measure, growth=EMAILS)
