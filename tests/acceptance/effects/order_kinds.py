"""Kinds of requests for tests: orders at the fake API, whose outcome is settled in each of the three ways."""

from datetime import timedelta

from tests.acceptance.effects import order_api
from weir.workers.effects.answers import Done, NotDone
from weir.workers.effects.models import Effect
from weir.workers.fetches.enqueue.requests_once import request_once
from weir.workers.fetches.once.kinds import REQUEST, request_kind

PROBED, KEYED, BLIND = KINDS = ("test.probed_order", "test.keyed_order", REQUEST)
SETTLES_S = 0.6  # more than the API's LATE_S


def probe(effect: Effect) -> Done | NotDone:
    """Ask what was taken of the order."""
    if order_api.taken(effect.context["site"], effect.key):
        return Done("taken")
    return NotDone("There is no such order.", retry=True)


request_kind(PROBED, probe=probe, probe_for=timedelta(minutes=10), settles_after=timedelta(seconds=SETTLES_S))
request_kind(KEYED, key_lifetime=timedelta(days=1))


def order(kind: str, address: str, name: str) -> Effect:
    """Ask for an order by its name, which says how the API behaves."""
    return request_once("POST", f"http://{address}/orders", key=name, kind=kind, body=name.encode(), max_attempts=1_000)
