"""Estimate: how far a start is from its prediction, if starts are served in the order of the requests.

Each probe asks `slots.estimate` when it would start, at a site at which up to ten seconds are reserved, and then waits
in `throttle`. Its error is the time between the prediction and the beginning of the `with` block, by the monotonic
clock of the process.
"""

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure

PROBES = int(os.environ.get("WEIR_BENCH_PROBES", "1000"))
PROCESSES, SITES = 4, 20  # in each process: one thread a site
RATES = {"1/s": 9, "2/s": 19, "5/s": 49}  # and the most starts that are reserved before a probe
FAR = 60.0


def measure(_folder: Path) -> list[Figure]:
    """Return the errors of all probes."""
    # Not at the top: the processes that this starts import this module before Django is set up.
    from django.db import connection  # noqa: PLC0415

    from demo.fakes.judge import percentile  # noqa: PLC0415
    from weir.ratelimit.models import Slot  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_ratelimit_slot, weir_ratelimit_site RESTART IDENTITY CASCADE")
    words = [sys.executable, "-m", "benchmarks.reservations.estimate", str(-(-PROBES // (PROCESSES * SITES)))]
    probers = [subprocess.Popen([*words, str(number)], stdout=subprocess.PIPE) for number in range(PROCESSES)]
    probes = [probe for prober in probers for probe in json.loads(prober.communicate()[0])]
    errors_ms = [abs(error_s) * 1000 for _, error_s in probes]
    return [
        Figure(name="estimate_probes", value=len(probes), unit="probes"),
        Figure(name="estimate_wait_p50", value=percentile((wait_s for wait_s, _ in probes), 50), unit="s"),
        Figure(name="estimate_wait_most", value=max(wait_s for wait_s, _ in probes), unit="s"),
        Figure(
            name="estimate_missed_slots", value=Slot.objects.filter(released_at__isnull=False).count(), unit="slots"
        ),
        Figure(name="estimate_error_p50", value=percentile(errors_ms, 50), unit="ms"),
        Figure(name="estimate_error_p99", value=percentile(errors_ms, 99), unit="ms"),
        Figure(name="estimate_error_most", value=max(errors_ms), unit="ms"),
    ]


def _probe(site: str, rate: str, probes: int) -> list[tuple[float, float]]:
    """Return the predicted wait and the error of each probe, in seconds."""
    from django.db import connection  # noqa: PLC0415

    from weir.ratelimit import site_settings, slots  # noqa: PLC0415
    from weir.ratelimit.throttle import throttle  # noqa: PLC0415

    site_settings.set_rate(site, rate)
    time.sleep(random.uniform(0, 2))  # noqa: S311  so that the probes are not in step
    found = []
    for _ in range(probes):
        if others := random.randint(0, RATES[rate]):  # noqa: S311  as above
            slots.reserve(site, others, max_wait=FAR)
        wait_s = slots.estimate(site)
        predicted = time.monotonic() + wait_s
        with throttle(site, max_wait=FAR):
            found.append((wait_s, time.monotonic() - predicted))
    connection.close()
    return found


def main() -> None:
    """Probe the sites of one process, and print waits and errors as JSON."""
    import django  # noqa: PLC0415  what follows needs Django's settings

    django.setup()
    from demo.fakes.children import die_with_parent  # noqa: PLC0415

    die_with_parent()
    probes, process = int(sys.argv[1]), sys.argv[2]
    sites = [f"site-{process}-{number}.bench" for number in range(SITES)]
    rates = [list(RATES)[number % len(RATES)] for number in range(SITES)]
    with ThreadPoolExecutor(SITES) as pool:
        found = [probe for of_site in pool.map(_probe, sites, rates, [probes] * SITES) for probe in of_site]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
