"""Forecast: how far the start of a fetch is from its prediction, when it waits behind others of its site.

Real processes fetch from fake sites. Each probe asks `forecast` when a fetch would start, and then enqueues the fetch.
Its error is the time between the prediction and the moment at which the site's kernel received the request.
"""

import os
import random
import time
from pathlib import Path

from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from demo.fakes import site_log, sites
from demo.fakes.judge import percentile
from weir.conf import settings
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.reports.forecast import forecast

SITES = 60
ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "5"))
RATES = {"1/s": 12, "2/s": 24, "3/s": 36}  # and the most fetches that are queued before a probe
BETWEEN = (0.0, 0.05)  # seconds between the probes of two sites, so that they do not share one tick of dispatch
PATIENCE_S = 60.0


def measure(folder: Path) -> list[Figure]:
    """Return the errors of all probes."""
    own_processes.empty()
    place = folder / "forecast"
    place.mkdir(parents=True, exist_ok=True)
    (place / "requests.log").unlink(missing_ok=True)
    with sites.running(SITES, place) as running, own_processes.running(place / "weir.log"):
        for number, host in enumerate(running.hosts):
            site_settings.set_rate(f"{host}:{running.port}", _rate(number))
        _round(running, "warm-up")
        errors_ms = [error for number in range(ROUNDS) for error in _round(running, f"round-{number}")]
    sizes_ms = [abs(error) for error in errors_ms]
    return [
        Figure(name="forecast_probes", value=len(errors_ms), unit="probes"),
        Figure(name="forecast_error_p50", value=percentile(sizes_ms, 50), unit="ms"),
        Figure(name="forecast_error_p99", value=percentile(sizes_ms, 99), unit="ms"),
        Figure(name="forecast_later_than_predicted_p50", value=percentile(errors_ms, 50), unit="ms"),
    ]


def _round(running: sites.Sites, name: str) -> list[float]:
    """Probe each site once, and return how many milliseconds later than predicted each request came."""
    predicted: dict[tuple[str, str], int] = {}
    path = f"/ok/{name}"
    for number in range(SITES):
        others = random.randint(0, RATES[_rate(number)])  # noqa: S311  nothing is secret
        request_fetches([running.url(number, f"/ok/other-{other}") for other in range(others)])
    time.sleep(settings.WEIR_LOOKAHEAD)  # until dispatch reserves at each site's own rate
    for number, host in enumerate(running.hosts):
        starts_in_s = forecast(f"{host}:{running.port}").starts_in_s
        predicted[host, path] = time.time_ns() + int(starts_in_s * 1e9)
        request_fetches([running.url(number, path)])
        time.sleep(random.uniform(*BETWEEN))  # noqa: S311  as above
    return [(at_ns - predicted[probe]) / 1e6 for probe, at_ns in _arrivals(running.log, predicted).items()]


def _arrivals(log: Path, probes: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Wait for these requests, and return when the kernel received each."""
    give_up_at = time.monotonic() + PATIENCE_S
    arrived: dict[tuple[str, str], int] = {}
    while len(arrived) < len(probes):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{len(probes) - len(arrived)} probes have not come after {PATIENCE_S:g} s")
        time.sleep(0.2)
        seen, _ = site_log.read_arrivals(log)
        arrived = {(a.host, a.path): a.at_ns for a in seen if (a.host, a.path) in probes}
    return arrived


def _rate(number: int) -> str:
    return list(RATES)[number % len(RATES)]
