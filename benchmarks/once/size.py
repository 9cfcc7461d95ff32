"""What the outbox's statements cost in a large installation: their plans, executed and rolled back.

The plans are written to `mail_plans.txt`. Each statement is executed three times; the figures are the median of
PostgreSQL's own times, and how many of the plans read the table of e-mails from one end to the other.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from django.db import connection

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.once import large, plans, queues

TIMES = 3
_EXECUTION_MS = re.compile(r"^Execution Time: ([\d.]+) ms$", re.MULTILINE)
_READS_ALL = re.compile(r"Seq Scan on weir_mail_email\b")


def measure(folder: Path, emails: int) -> Iterator[Figure]:
    """Yield the figures, each as soon as it is there."""
    began_at = time.perf_counter()
    large.fill(emails)
    database.run_at_length("VACUUM ANALYZE weir_mail_email, weir_mail_rendering")
    yield Figure(name="fill_took", value=time.perf_counter() - began_at, unit="s")
    yield from large.sizes()
    reading_all = 0
    with (folder / "mail_plans.txt").open("w", encoding="utf-8") as out:
        for statement in plans.statements():
            found = [database.explain(statement.text, statement.parameters, statement.before) for _ in range(TIMES)]
            out.write(f"-- {statement.title}\n{found[-1]}\n\n")
            reading_all += bool(_READS_ALL.search(found[-1]))
            times_ms = [float(ms) for plan in found for ms in _EXECUTION_MS.findall(plan)]
            yield Figure(name=statement.title, value=median(times_ms), unit="ms")
    yield Figure(name="plans_that_read_all_e_mails", value=reading_all, unit="(0 = none)")
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_mail_pausedkind")
    queues.empty()
