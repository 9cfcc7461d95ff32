"""The demo's warehouse: orders come in at a steady rate, and two clerks ship them.

Both look for orders that are not shipped, and find the same ones; each order is shipped by one of them, and its e-mail
is written with that. Customers' addresses say how the mail server treats their e-mail (`mail_server.py`).
"""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from workers import claims
from workers.orders import shipping
from workers.orders.models import Order

ORDERS_PER_S = 10
CLERKS = 2
CLERKS_LOOK_EVERY_S = 0.2
ODD_ONE_IN = 10  # orders; as many are answered late, so that there is always an e-mail on its way
LATE = "late-700"
ODD = (
    "cut-accepted",
    "greylist-1",
    "refuse",
    "cut-before-dot",
    "stall-600",
    "cut-unaccepted",
    "closing",
    "refuse-content",
    "cut-after-reply",
)


def customer(number: int) -> str:
    """Return the address of the customer whose order has this number."""
    place, rest = divmod(number, ODD_ONE_IN)
    words = {0: ODD[place % len(ODD)], ODD_ONE_IN // 2: LATE}
    return f"{words.get(rest, 'customer')}.{number}@customers.example"


def place_order(number: int) -> None:
    """Order something."""
    Order.objects.create(number=f"{number:06}", customer_email=customer(number))


def ship_all() -> int:
    """Ship all orders that the other clerk is not shipping; returns how many."""
    return claims.each_locked(Order.objects.unshipped(), lambda order: shipping.ship(order.pk))


def ship_until(over: Event) -> None:
    """Be a clerk until it is over."""
    while not over.wait(CLERKS_LOOK_EVERY_S):
        ship_all()


def main() -> None:
    """Take orders and have them shipped until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # asked for between two orders, it cuts none off
    number = 0
    over = Event()
    with ThreadPoolExecutor(CLERKS) as pool:
        clerks = [pool.submit(ship_until, over) for _ in range(CLERKS)]
        try:
            while not signal.sigtimedwait({signal.SIGTERM}, 1 / ORDERS_PER_S):
                number += 1
                place_order(number)
                for clerk in clerks:
                    if clerk.done():
                        clerk.result()  # raises what went wrong there
        finally:
            over.set()
    os._exit(0)  # Python would take half a second to end, and everybody waits
