"""The demo's warehouse: orders arrive at a steady rate, and two clerks, each a thread, ship them.

Both clerks look for orders that are not shipped, and find the same ones. Each order is shipped by one of them, in the
transaction that writes its e-mail. A customer's address says how the mail server treats the e-mail (`mail_server.py`).
"""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from weir.workers import claims
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

ORDERS_PER_S = 10
CLERKS = 2
CLERKS_LOOK_EVERY_S = 0.2
ODD_ONE_IN = 10  # one order of so many is odd; another is answered late, so that some e-mail is always in flight
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
    """Place an order of the customer with this number."""
    Order.objects.create(number=f"{number:06}", customer_email=customer(number))


def ship_all() -> int:
    """Ship all unshipped orders except those that another clerk has locked; return how many."""
    return claims.each_locked(Order.objects.unshipped(), lambda order: shipping.ship(order.pk))


def ship_until(over: Event) -> None:
    """Ship orders as one clerk does, until `over` is set."""
    while not over.wait(CLERKS_LOOK_EVERY_S):
        ship_all()


def main() -> None:
    """Place orders and run the clerks until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # waited for between two orders, it interrupts none
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
                        clerk.result()  # raises the clerk's error
        finally:
            over.set()
    os._exit(0)  # the interpreter's own shutdown would delay the end of the demo by half a second
