"""What the tables of the page compare: a figure of Weir's, and those of its peers in the same run."""

from typing import Final, NamedTuple


class Peer(NamedTuple):
    """What stands in a further column, and which figure: mostly what Weir is compared with."""

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
    ours: str = "Weir"  # the title of the first column of figures


def _fetches(what: str, prefix: str, suffix: str, *, has_ratio: bool = False) -> Line:
    named = {"scrapy": "Scrapy", "celery_rate_limit": "Celery's `rate_limit`"}
    peers = (
        Peer(name, f"{prefix}_{side}{suffix}", f"{prefix}_vs_{side}" if has_ratio else "")
        for side, name in named.items()
    )
    return Line(what, f"{prefix}_weir{suffix}", tuple(peers))


_ORM = "Django's `bulk_create` or `create`"
_MANY, _TLS, _FEW = "end_to_end", "end_to_end_tls", "end_to_end_100_sites"


def _throttle(per_s: int, processes: str) -> Line:
    ours, theirs = (f"throttle_{per_s}_per_s_{side}_{processes}" for side in ("throttle", "throttled_py"))
    others = {
        "by throttled-py": f"{theirs}_share",
        "Shortest gap, Weir": f"{ours}_shortest_gap",
        "throttled-py": f"{theirs}_shortest_gap",
    }
    peers = (Peer(title, figure) for title, figure in others.items())
    of = "one process" if processes == "1_process" else "eight processes"
    return Line(f"{per_s:,}/s, {of}", f"{ours}_share", tuple(peers))


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
            _fetches("Shortest gap on the wire", _FEW, "_shortest_gap_ms"),
            _fetches("Early starts", _FEW, "_early_starts"),
            _fetches("Share of the rate used", _FEW, "_of_rates"),
            _fetches("Lateness p50", _FEW, "_beyond_interval_p50_ms"),
            _fetches("p99", _FEW, "_beyond_interval_p99_ms"),
        ),
    ),
    "wire of many": Table(
        "end_to_end",
        (
            _fetches("Shortest gap on the wire", _MANY, "_shortest_gap_ms"),
            _fetches("Share of the rates used", _MANY, "_of_rates"),
            _fetches("Fetches", _MANY, "", has_ratio=True),
            _fetches("Fetches by TLS, 1,000 sites", _TLS, "", has_ratio=True),
            _fetches("A core of the side's own processes", _MANY, "_a_core"),
            Line(
                "A core, with the servers that it needs",
                "end_to_end_weir_and_servers_a_core",
                (
                    Peer("Scrapy", "end_to_end_scrapy_a_core"),
                    Peer("Celery's `rate_limit`", "end_to_end_celery_rate_limit_and_broker_a_core"),
                ),
            ),
        ),
    ),
    "slots": Table(
        "dispatch",
        (
            Line(
                "1,000 sites, 1,000,000 queued fetches",
                "dispatch",
                (Peer("throttled-py", "dispatch_throttled_py", "dispatch_vs_throttled_py"),),
            ),
        ),
    ),
    "reservations": Table(
        "reservations",
        (
            Line(
                "1,000 sites in turn",
                "reserve_1000_sites",
                (Peer("a bare upsert", "bare_upsert_1000_sites", "reserve_1000_sites_vs_bare_upsert"),),
            ),
        ),
    ),
    "throttle": Table(
        "reservations",
        tuple(_throttle(per_s, processes) for per_s in (10, 200, 1_000) for processes in ("1_process", "8_processes")),
        ours="Share used by Weir",
    ),
    "enqueue": Table(
        "enqueue",
        (
            Line(
                "`request_fetches`, 1,000 URLs a call",
                "enqueue_1000",
                (
                    Peer("Celery's `delay`", "enqueue_1000_celery", "enqueue_1000_vs_celery"),
                    Peer(_ORM, "enqueue_1000_bulk_create", "enqueue_1000_vs_bulk_create"),
                ),
            ),
            Line(
                "`request_fetch`, one URL a call",
                "enqueue_one",
                (
                    Peer("Celery's `delay`", "enqueue_one_celery", "enqueue_one_vs_celery"),
                    Peer(_ORM, "enqueue_one_create", "enqueue_one_vs_create"),
                ),
            ),
        ),
    ),
    "mail": Table(
        "once",
        (
            _mails("The mail server writes to its disk", "once_onto_disk"),
            _mails("It only counts", "once"),
            _mails("It only counts, four processes", "once", "_by_4"),
            Line(
                "Queuing",
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
