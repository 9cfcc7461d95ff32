"""What the tables of the page compare: a figure of Weir's, and those of its peers in the same run."""

from typing import Final, NamedTuple


class Peer(NamedTuple):
    """What Weir is compared with, and by which figure."""

    name: str
    figure: str
    ratio: str = ""  # the figure that is the median of the rounds' ratios, if the benchmark has one


class Line(NamedTuple):
    """A figure of Weir's, and what it means."""

    what: str
    figure: str
    peers: tuple[Peer, ...] = ()


class Table(NamedTuple):
    """The lines that one benchmark has measured."""

    benchmark: str
    lines: tuple[Line, ...]


def _fetches(what: str, prefix: str, suffix: str, *, has_ratio: bool = False) -> Line:
    named = {"scrapy": "Scrapy", "celery_rate_limit": "Celery's `rate_limit`"}
    peers = (
        Peer(name, f"{prefix}_{side}{suffix}", f"{prefix}_vs_{side}" if has_ratio else "")
        for side, name in named.items()
    )
    return Line(what, f"{prefix}_weir{suffix}", tuple(peers))


_MANY, _TLS, _FEW = "end_to_end", "end_to_end_tls", "end_to_end_100_sites"


def _throttle(per_s: int, processes: str, what: str, suffix: str) -> Line:
    prefix = f"throttle_{per_s}_per_s"
    of = "one process" if processes == "1_process" else "eight processes"
    return Line(
        f"{what}, one site of {per_s:,}/s, {of}",
        f"{prefix}_throttle_{processes}_{suffix}",
        (Peer("throttled-py", f"{prefix}_throttled_py_{processes}_{suffix}"),),
    )


def _mails(what: str, prefix: str, suffix: str = "") -> Line:
    named = {
        "django_mailer": "django-mailer",
        "post_office": "django-post_office",
        "published": "the published pattern",
    }
    peers = (Peer(name, f"{prefix}_{side}{suffix}", f"{prefix}_vs_{side}{suffix}") for side, name in named.items())
    return Line(what, f"{prefix}_send_due{suffix}", tuple(peers))


# By the mark in the page.
TABLES: Final = {
    "wire": Table(
        "end_to_end",
        (
            _fetches("Shortest gap on the wire, 100 sites at 3/s (333.3 ms)", _FEW, "_shortest_gap_ms"),
            _fetches("Early starts, 100 sites at 3/s", _FEW, "_early_starts"),
            _fetches("Share of the rate used, 100 sites at 3/s", _FEW, "_of_rates"),
            _fetches("Lateness p50: beyond the interval, 100 sites at 3/s", _FEW, "_beyond_interval_p50_ms"),
            _fetches("Lateness p99: beyond the interval, 100 sites at 3/s", _FEW, "_beyond_interval_p99_ms"),
            _fetches("Shortest gap on the wire, 1,500 sites at 3/s", _MANY, "_shortest_gap_ms"),
            _fetches("Share of the rates used, 1,500 sites at 3/s", _MANY, "_of_rates"),
            _fetches("Fetches, 1,500 sites at 3/s", _MANY, "", has_ratio=True),
            _fetches("Fetches, 1,000 sites at 3/s by TLS", _TLS, "", has_ratio=True),
            _fetches("Fetches a core, of the side's own processes", _MANY, "_a_core"),
            Line(
                "Fetches a core, with the servers that the side needs",
                "end_to_end_weir_and_servers_a_core",
                (
                    Peer("Scrapy", "end_to_end_scrapy_a_core"),
                    Peer("Celery's `rate_limit`", "end_to_end_celery_rate_limit_and_broker_a_core"),
                ),
            ),
        ),
    ),
    "lateness": Table(
        "far_database",
        tuple(
            Line(f"{what}, PostgreSQL {distance} ms away", f"far_database_{distance}_ms_jitter_0_ms_{figure}")
            for distance in (0, 5, 20, 50, 100)
            for what, figure in (("Lateness p50", "lateness_p50"), ("p99", "lateness_p99"), ("Share", "used_share"))
        ),
    ),
    "slots": Table(
        "dispatch",
        (
            Line(
                "Slots of dispatch, 1,000 sites and 1,000,000 queued",
                "dispatch",
                (Peer("throttled-py: one call a start", "dispatch_throttled_py", "dispatch_vs_throttled_py"),),
            ),
        ),
    ),
    "reservations": Table(
        "reservations",
        (
            Line(
                "Single reservations, 1,000 sites in turn",
                "reserve_1000_sites",
                (Peer("a bare upsert", "bare_upsert_1000_sites", "reserve_1000_sites_vs_bare_upsert"),),
            ),
            *(
                _throttle(per_s, processes, what, suffix)
                for per_s in (10, 200, 1_000)
                for processes in ("1_process", "8_processes")
                for what, suffix in (
                    ("`throttle`: share of the rate", "share"),
                    ("Shortest gap, in intervals", "shortest_gap"),
                )
            ),
        ),
    ),
    "enqueue": Table(
        "enqueue",
        (
            Line(
                "`request_fetches`, 1,000 URLs a call",
                "enqueue_1000",
                (
                    Peer("Celery's `delay`, 1,000 messages", "enqueue_1000_celery", "enqueue_1000_vs_celery"),
                    Peer("Django's `bulk_create`", "enqueue_1000_bulk_create", "enqueue_1000_vs_bulk_create"),
                ),
            ),
            Line(
                "`request_fetch`, one URL a call",
                "enqueue_one",
                (
                    Peer("Celery's `delay`", "enqueue_one_celery", "enqueue_one_vs_celery"),
                    Peer("Django's `create`", "enqueue_one_create", "enqueue_one_vs_create"),
                ),
            ),
        ),
    ),
    "mail": Table(
        "once",
        (
            _mails("E-mails, the mail server has each on its disk before it accepts", "once_onto_disk"),
            _mails("E-mails, a mail server that only counts", "once"),
            _mails("The same, four processes", "once", "_by_4"),
            Line(
                "E-mails queued",
                "queue_send_once",
                (
                    Peer("django-mailer", "queue_django_mailer", "queue_vs_django_mailer"),
                    Peer("django-post_office", "queue_post_office", "queue_vs_post_office"),
                ),
            ),
        ),
    ),
    "unread": Table(
        "unread",
        (
            Line(
                "Rows of a flush, users that have one",
                "flush",
                (
                    Peer("Django's `update()` in a loop", "looped_update", "flush_vs_looped_update"),
                    Peer("the published flush", "published_flush", "flush_vs_published_flush"),
                ),
            ),
            Line(
                "Changes of a number",
                "unread_add",
                (Peer("bare ZINCRBY", "bare_zincrby", "unread_add_vs_bare_zincrby"),),
            ),
        ),
    ),
}
