"""The side with Weir: its own processes, by their lines of Procfile.split.

Fetchers, and processes of the pools of flushers (`maintenance`) and of mailers, are killed, as those of the peers that
do these jobs. The processes that only hand out work go on, as the broker does on both sides.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from benchmarks.figures import Figure
from benchmarks.picture import roles
from benchmarks.picture.killed import Kind
from benchmarks.picture.peers import empty
from benchmarks.picture.size import RATE, Size
from benchmarks.picture.turn import EMAILS_AHEAD, Outside, recipient
from demo import home
from demo.users import drifted
from weir.notifications import flush, inbox
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

WEIR: Final = "weir"
COUNTS: Final = {"ticks": 1, "beat": 1, "maintenance": 1, "fetcher": 2, "mailer": 1}
KILLED: Final = {"maintenance", "fetcher", "mailer"}
MOST_ATTEMPTS: Final = 100
ON_THE_WAY: Final = (EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING)


class Weir:
    """Weir, with the e-mail settings of the demo: it decides within seconds what is unknown."""

    name = WEIR
    pacers: Sequence[str] = (WEIR,)
    mailers: Sequence[str] = (WEIR,)

    def __init__(self, size: Size) -> None:
        self._size = size
        self._shipped = 0

    def kinds(self, port: int) -> list[Kind]:
        of_demo = {name: value for name, value in home.environment(Path()).items() if "MAIL" in name}
        return [
            Kind(
                name=name,
                command=roles.command(name, count),
                environment={**of_demo, "EMAIL_PORT": str(port)},
                is_killed=name in KILLED,
            )
            for name, count in COUNTS.items()
        ]

    def begin(self, urls: Mapping[str, list[str]], folder: Path) -> None:  # noqa: ARG002  Weir needs no file
        empty()
        for site in sorted({urlsplit(url).netloc for url in urls[WEIR]}):
            site_settings.set_rate(site, RATE)
        request_fetches(urls[WEIR], max_attempts=MOST_ATTEMPTS)

    def act(self, chance: Random, waiting: Mapping[str, int]) -> None:
        inbox.notify_many(chance.sample(self._size.users, self._size.users_at_once), "news", "Hello")
        inbox.mark_all_read(chance.choice(self._size.users))
        for _ in range(EMAILS_AHEAD - waiting[WEIR]):
            self._shipped += 1
            address = recipient(WEIR, self._shipped)
            order = Order.objects.create(number=f"{self._shipped:06}", customer_email=address)
            shipping.ship(order.pk)

    def shipped(self) -> Mapping[str, int]:
        return {WEIR: self._shipped}

    def has_settled(self, outside: Outside) -> bool:  # noqa: ARG002  Weir knows
        return not Email.objects.filter(state__in=ON_THE_WAY).exists()

    def figures(self, outside: Outside) -> Iterator[Figure]:
        flush.flush_sealed()
        unknown = set(Email.objects.filter(state=EmailState.UNKNOWN).values_list("recipient", flat=True))
        lost = unknown - outside.received(WEIR).keys()
        yield Figure(name="picture_weir_numbers", value=len(self._size.users), unit="numbers")
        yield Figure(name="picture_weir_wrong", value=len(drifted(self._size.users)), unit="numbers")
        yield Figure(name="picture_weir_unknown", value=len(unknown), unit="e-mails")
        yield Figure(name="picture_weir_unknown_never", value=len(lost), unit="e-mails")
