"""What may happen to a fetch, whose fault it is, and what becomes of the fetch.

These are the lists of docs/reference/outcomes.md.

`python -m tests.integration.fetcher.situations` writes the lists into that page; a unit test keeps it true.
test_situations.py makes each situation, and looks at the fetch and its slot afterwards.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from project.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "outcomes.md"
BEGIN = (
    "<!-- From here on made by `python -m tests.integration.fetcher.situations`: "
    "change tests/integration/fetcher/situations.py. -->"
)
END = "<!-- Made until here. -->"


class Blame(Enum):
    """Whose fault it is."""

    SITE = "The site's fault"
    OURS = "Our fault"
    NOBODY = "Nobody's fault"
    FETCH = "The fetch's fault"


class Becomes(Enum):
    """What becomes of the fetch."""

    DONE = "done"
    FAILED = "failed"
    AGAIN = "tried again"  # after the back-off of its attempts; the last attempt fails
    BACK = "given back"  # to the queue, for the next slot
    WAITS = "left in the queue"
    ON = "queued for the target"
    CANCELLED = "cancelled"


COUNTED = frozenset({Becomes.DONE, Becomes.FAILED, Becomes.AGAIN})  # with an attempt, if the table says nothing else


class Slot(Enum):
    """What becomes of its slot."""

    USED = "slot used"
    FREE = "slot free"
    PASSED_ON = "slot passed on"
    EMPTY = "slot left empty"
    NONE = "no slot"  # it never had one


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One situation of the page."""

    what: str
    blame: Blame
    becomes: Becomes
    counts: bool  # whether an attempt is counted
    slot: Slot
    error: str = ""  # of the fetch; the sign … stands for any text
    log: str = ""  # the event of a log line
    besides: str = ""  # what else happens
    site_rests: bool = False  # the site is backed off
    proof: str = ""  # the test that makes it, if that is not test_situations.py

    @property
    def outcome(self) -> str:
        """Return whose fault it is, and what becomes of the fetch and its slot."""
        return f"**{self.blame.value}: {self.becomes.value}, {self.slot.value}**"

    @property
    def words(self) -> str:
        """Return what is said and what else happens, in Markdown."""
        counted = self.becomes in COUNTED
        assert counted or not self.counts, f"no column says so: {self.what}"
        parts = [
            "no attempt" if counted and not self.counts else "",
            f"`{_beginning(self.error)}`" if self.error else "",
            f"logs `{self.log}`" if self.log else "",
            "the site is backed off" if self.site_rests and not self.log else "",
            self.besides,
        ]
        return "; ".join(part for part in parts if part)


def _beginning(error: str) -> str:
    """Return what one looks it up by: long errors say more than that, such as what to do."""
    words = error.split()
    return error if len(words) <= MOST_WORDS else " ".join([*words[: MOST_WORDS - 1], "…"])


def _site(what: str, error: str, slot: Slot = Slot.USED, **more: Any) -> Situation:
    """It is the site's fault: the fetch is tried again, and an attempt is counted."""
    return Situation(what=what, blame=Blame.SITE, becomes=Becomes.AGAIN, counts=True, slot=slot, error=error, **more)


def _final(what: str, error: str, blame: Blame = Blame.SITE, slot: Slot = Slot.USED, **more: Any) -> Situation:
    """The next attempt would end the same."""
    fields = {"counts": True, **more}
    return Situation(what=what, blame=blame, becomes=Becomes.FAILED, slot=slot, error=error, **fields)


def _refused(what: str, error: str) -> Situation:
    """It is seen when the fetch is asked for."""
    return _final(what, error, Blame.FETCH, Slot.NONE, counts=False, besides="when asked for")


def _done(what: str, **more: Any) -> Situation:
    return Situation(what=what, blame=Blame.NOBODY, becomes=Becomes.DONE, counts=True, slot=Slot.USED, **more)


def _back(what: str, blame: Blame, slot: Slot = Slot.FREE, **more: Any) -> Situation:
    """The fetch goes back to the queue, and no attempt is counted."""
    return Situation(what=what, blame=blame, becomes=Becomes.BACK, counts=False, slot=slot, **more)


def _died(what: str, *, counts: bool = False, **more: Any) -> Situation:
    """It is not known whether the request was written: the slot is used."""
    return Situation(
        what=what, blame=Blame.OURS, becomes=Becomes.AGAIN, counts=counts, slot=Slot.USED, error=DIED, **more
    )


def _unjudged(what: str, becomes: Becomes, error: str) -> Situation:
    return Situation(
        what=what,
        blame=Blame.OURS,
        becomes=becomes,
        counts=True,
        slot=Slot.USED,
        error=f"the answer could not be judged: {error}",
        log="event_not_judged",
        proof="tests/integration/fetcher/test_writer.py::test_an_event_that_cannot_be_judged_fails_alone",
    )


def _ran_out(what: str, **more: Any) -> Situation:
    return _back(what, Blame.OURS, **{"log": "fetcher_has_run_out", "besides": "the fetcher pauses", **more})


def _offline(what: str, **more: Any) -> Situation:
    return _back(what, Blame.OURS, log="no_site_is_reached", besides="the fetcher pauses", **more)


def _frozen(what: str) -> Situation:
    return _died(
        what,
        log="process_lost",
        besides="taken back when its [run](../glossary.md#run) is over, if another process has gone on",
    )


MOST_WORDS = 9  # of an error in the table
DIED = "its fetcher died, or could not store the result, before the lease ran out"
FROZEN = "the fetcher is frozen, or without PostgreSQL, for 8 s"
CLOSED = "the site closed the connection without an answer"
PORT = "…port … is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it"
FORBIDDEN = "…; WEIR_FETCH_ALLOW_NETS can allow its network"
REFUSED = "connection refused by … port … (ECONNREFUSED): no server listens there, so check the URL's host and port"
TOO_LARGE = "the body is larger than … bytes (WEIR_FETCH_MAX_BODY)"
NOT_CONNECTED = "no connection within … s"
NOT_ANSWERED = "no complete answer within … s"
HEADERS = "the headers are larger than … bytes together"
TOO_SLOW = "the connection took … s to open, longer than its slot could wait"

NO_STATUS = "tests/unit/wire/test_answers.py::test_what_is_no_answer_says_why"
BEFORE = "the site answered 409: the request may still go on that it got before"
MARKED = "`incomplete` says why"

TABLE: dict[str, list[Situation]] = {
    "DNS": [
        _site("the name does not exist (NXDOMAIN)", "gaierror: … Name or service not known", Slot.FREE),
        _site("the name has no address", "gaierror: … No address associated with hostname", Slot.FREE),
        _site(
            "its name servers fail (EAI_AGAIN), other names are found",
            "gaierror: … Temporary failure in name resolution",
            Slot.FREE,
        ),
        _site(
            "its name servers do not answer in time, others do",
            "LookupTimedOut: no answer from DNS for … within … s",
            Slot.FREE,
        ),
        _offline("no name server answers for any site (EAI_AGAIN)"),
        _offline("no name server answers in time for any site"),
        _back("other look-ups have all threads of the resolver", Blame.OURS, log="hosts_not_looked_up"),
        _ran_out("the resolver has no memory (EAI_MEMORY)"),
        _ran_out("the resolver cannot open what it needs (EAI_SYSTEM)"),
    ],
    "Connecting": [
        _site("the site refuses the connection", REFUSED, Slot.FREE),
        _site(
            "the site resets the TLS handshake",
            "not connected to … port …: Connection reset by peer",
            Slot.FREE,
        ),
        _site(
            "the site closes the connection in the TLS handshake", "not connected to …: the site closed …", Slot.FREE
        ),
        _site("the site speaks no TLS", "TLS failed: …", Slot.FREE),
        _site("the site's certificate is not valid", "the site's certificate is not valid: …", Slot.FREE),
        _site("the site does not answer in time, others do", NOT_CONNECTED, Slot.FREE),
        _site(
            "its TLS handshake does not end in time, others do",
            f"{NOT_CONNECTED}: its handshake of TLS did not end",
            Slot.FREE,
        ),
        _site(
            "its host is unreachable (EHOSTUNREACH), others are not",
            "not connected to … port …: No route to host",
            Slot.FREE,
        ),
        _offline("no site answers attempts to connect"),
        _offline("every host is unreachable (EHOSTUNREACH)"),
        _site(
            "no site is reached for an hour, for this fetch in this process",
            "…",
            Slot.FREE,
        ),
        _site(
            "this host has no route for its kind of address (ENETUNREACH), but for the other",
            "not connected to … port …: Network is unreachable",
            Slot.FREE,
        ),
        _ran_out("this host has no default route (ENETUNREACH)"),
        _ran_out("all local ports are in use (EADDRNOTAVAIL)"),
        _site(
            "this host has no address of its kind (EADDRNOTAVAIL), others are reached",
            "not connected to … port …: Cannot assign requested address",
            Slot.FREE,
        ),
        _refused("the address is forbidden", FORBIDDEN),
        _refused("the port of an address is forbidden", PORT),
        _final("the port of a name is forbidden, and networks are allowed", PORT, Blame.FETCH, Slot.FREE),
        _final("the name resolves to forbidden addresses only", f"… resolves to {FORBIDDEN}", Blame.FETCH, Slot.FREE),
        _back(
            "the connection first takes longer than its slot can wait",
            Blame.NOBODY,
            besides="the next one is opened earlier",
        ),
        _site("the connection takes longer, though opened as early as the last one took", TOO_SLOW, Slot.FREE),
        _back(
            "five attempts could not connect, and this fetch waits",
            Blame.SITE,
            site_rests=True,
        ),
    ],
    "Resources of the process": [
        _ran_out("no file descriptor is left in the process (EMFILE)"),
        _ran_out("no file descriptor is left on the host (ENFILE)"),
        _ran_out("the kernel has no buffer left (ENOBUFS)"),
        _ran_out("the kernel has no memory left (ENOMEM)"),
        _ran_out("no memory is left for a connection (MemoryError)"),
        _ran_out("no memory is left for an answer (MemoryError)", slot=Slot.USED),
        _ran_out("no memory is left in the middle of a body", slot=Slot.USED),
        _done(
            "most file descriptors of the process are in use",
            besides="its connection is not kept",
            proof="tests/integration/fetcher/test_budgets.py::test_more_sites_than_descriptors_are_all_fetched",
        ),
        _done(
            "other answers have all memory (`WEIR_FETCH_MAX_MEMORY`)",
            besides="it waits, and its time-out stands still",
            proof="tests/integration/fetcher/test_budgets.py"
            "::test_many_large_bodies_at_once_need_no_more_memory_than_is_allowed",
        ),
        _ran_out(
            "other answers have all memory for longer than the [lease](../glossary.md#lease) leaves",
            slot=Slot.USED,
            error="no complete answer within its lease: others had all memory (WEIR_FETCH_MAX_MEMORY)",
            besides="after an hour, attempts count",
            proof="tests/integration/fetcher/test_budgets.py"
            "::test_an_answer_that_never_gets_memory_is_given_back_for_an_hour_and_then_fails",
        ),
        _back(
            "too many requests of the process, or to the site, wait for answers",
            Blame.NOBODY,
            proof="tests/integration/fetcher/test_fetcher_recalls.py::test_a_site_that_hangs_uses_up_its_share_only",
        ),
        _back(
            "too many requests to the IP address wait for answers (`WEIR_FETCH_MAX_PER_ADDRESS`)",
            Blame.NOBODY,
        ),
    ],
    "Before the request is written": [
        _back("the message comes after its slots have passed", Blame.OURS),
        _back(
            "the fetcher cannot ask PostgreSQL about its slots",
            Blame.OURS,
            log="watch_waits_for_database",
            proof="tests/integration/fetcher/test_fetcher_recalls.py::test_a_fetcher_that_cannot_ask_starts_nothing",
        ),
        Situation(
            what="a secret in its headers is not known to the fetcher",
            blame=Blame.OURS,
            becomes=Becomes.AGAIN,
            counts=True,
            slot=Slot.FREE,
            error="the secret … is not known to this process: …",
        ),
        Situation(
            what="the site's proxy opens no tunnel",
            blame=Blame.SITE,
            becomes=Becomes.AGAIN,
            counts=True,
            slot=Slot.FREE,
            error="not connected to …: the proxy opens no tunnel: …",
            proof="tests/unit/wire/test_tunnels.py::test_an_answer_of_a_proxy_is_a_tunnel_or_none",
        ),
        Situation(
            what="the site's proxy asks for other credentials (407)",
            blame=Blame.SITE,
            becomes=Becomes.AGAIN,
            counts=True,
            slot=Slot.FREE,
            site_rests=True,
            error="not connected to the site: its proxy … answers 407: …",
            proof="tests/integration/fetcher/test_site_networks.py::test_a_proxy_that_asks_for_other_credentials_is_asked_once",
        ),
        _back("the site is paused", Blame.NOBODY),
        _back("the site gets another rate", Blame.NOBODY),
        _back("the host gets a site of its own", Blame.NOBODY, besides="it follows its host"),
        _back("the site refuses another fetch (429)", Blame.SITE, site_rests=True),
        Situation(
            what="the fetch is cancelled, and another one waits",
            blame=Blame.FETCH,
            becomes=Becomes.CANCELLED,
            counts=False,
            slot=Slot.PASSED_ON,
        ),
        Situation(
            what="the fetch is cancelled, and no other one waits",
            blame=Blame.FETCH,
            becomes=Becomes.CANCELLED,
            counts=False,
            slot=Slot.EMPTY,
        ),
        _back("the fetcher stops (SIGTERM)", Blame.OURS),
        _done("the site closes the waiting connection", besides="another connection is opened"),
    ],
    "Answers": [
        *(_done(str(status)) for status in (200, 204)),
        _done("304 to a request with validators", besides="with the last good body"),
        _done("304 that was not asked for"),
        Situation(
            what="a redirect",
            blame=Blame.NOBODY,
            becomes=Becomes.ON,
            counts=False,
            slot=Slot.USED,
            besides="with a slot of the target's site",
        ),
        Situation(
            what="a redirect with a Retry-After",
            blame=Blame.NOBODY,
            becomes=Becomes.ON,
            counts=False,
            slot=Slot.USED,
            error="its redirect asks to be followed in … s (Retry-After)",
            besides="due when that is over",
        ),
        _done("a redirect that names no target"),
        _done("a redirect, with `max_redirects` of 0"),
        _done("206 that was not asked for", besides=MARKED),
        _done("409"),
        _site("409 to a PATCH that was perhaps sent before", BEFORE, besides="the last is the answer"),
        _final("the eleventh redirect", "more than 10 redirects, the last to …"),
        _final("a redirect to where it was asked", "redirected to itself: …"),
        _final("a redirect back to where it began", "redirected to where it began: …"),
        _final("a redirect of a PUT to another origin", "redirected to another origin, to which no PUT is sent: …"),
        _final("a redirect to two places", "redirected to 2 different places at once"),
        _final("a redirect to what is not fetched", "redirected to …: …"),
        _final("a redirect to a forbidden address", f"redirected to …: {FORBIDDEN}"),
        _final("a redirect to a forbidden port", f"redirected to …: {PORT}"),
        *(_done(str(status)) for status in (400, 401, 403, 404, 410)),
        _site("429 with Retry-After", "the site answered 429", site_rests=True, log="site_backed_off"),
        _site("429 without Retry-After", "the site answered 429", site_rests=True, log="site_backed_off"),
        _site(
            "403, 413 or 420 that says until when (Retry-After, or a used-up quota)",
            "the site answered 403",
            site_rests=True,
            log="site_backed_off",
        ),
        _site(
            "502, 529 or 999 that says until when",
            "the site answered 529, which refuses more requests",
            site_rests=True,
            log="site_backed_off",
        ),
        _site(
            "a status that the site's settings name (`--refusing`)",
            "the site answered 404",
            site_rests=True,
            log="site_backed_off",
        ),
        _done("any answer that is no refusal, with a used-up quota", log="site_rests", site_rests=True),
        _site("500", "the site answered 500"),
        _site("503", "the site answered 503", site_rests=True, log="site_backed_off"),
        _final("the body is larger than `WEIR_FETCH_MAX_BODY`", TOO_LARGE),
        _final("the decompressed body is larger", TOO_LARGE),
        _final("the compressed body is broken", "the compressed body is broken: …"),
        _final(
            "the body takes more than 0.08 s of the processor to decompress",
            "the body takes more than … s of the processor to decompress",
            proof="tests/unit/fetcher/test_decoding.py::test_no_body_takes_longer_than_its_budget",
        ),
        _site("the compressed body ends too early", "the compressed body ends too early"),
        _site(
            "other bodies leave no time to decompress the body",
            "the body was not decompressed in time: too many bodies take long",
            proof="tests/unit/fetcher/test_writer.py::test_an_overdue_answer_is_tried_again",
        ),
        _done("the compressed body lacks its trailer, or has bytes behind it", besides="ignored"),
        _done("the body's encoding is unknown", besides=f"taken as it came; {MARKED}"),
        _done("404, whose body is too large, cut off or broken", besides=f"without a body; {MARKED}"),
        Situation(
            what="a redirect whose body is too large, cut off or broken",
            blame=Blame.NOBODY,
            becomes=Becomes.ON,
            counts=False,
            slot=Slot.USED,
            besides="with a slot of the target's site",
        ),
        _site("500, whose body is too large, cut off or broken", "the site answered 500"),
        _site("101, for which nobody asked", "the site answers 101, which answers no request", proof=NO_STATUS),
        _site("a status below 100", "the site answers 0…, which answers no request", proof=NO_STATUS),
    ],
    "No whole answer": [
        _site("a new connection is closed without an answer", CLOSED),
        _back(
            "a kept connection is closed without an answer",
            Blame.NOBODY,
            slot=Slot.USED,
            besides="the next time counts, in this process",
        ),
        _site("the connection is reset", CLOSED),
        _site(
            "the connection is closed in the middle of the body",
            "the site closed the connection in the middle of its answer",
        ),
        _site("no answer comes in time, others come", NOT_ANSWERED),
        _offline("no site answers in time any more", slot=Slot.USED),
        _site("the body does not end in time", NOT_ANSWERED),
        _final("the headers are larger than 256 KiB together", HEADERS),
        _final("an answer has more than 256 header lines", "the answer has more than 256 header lines"),
        _final(
            "more than 20 interim answers (1xx) come", "the answer has more than 20 interim answers (1xx) before it"
        ),
        _site("the chunks of a body are broken", "the body is broken: …"),
        _site(
            "the site speaks before a request can be sent",
            "the site closes connections, or speaks, before a request can be sent: it says …",
            Slot.FREE,
        ),
        _site("the answer is not HTTP", "not an answer in HTTP: it begins with …"),
        _back("the fetcher stops (SIGTERM) before the answer", Blame.OURS, slot=Slot.USED),
    ],
    "robots.txt": [
        _final("robots.txt disallows it", "robots.txt of … disallows it", Blame.FETCH, Slot.FREE, counts=False),
        _back("robots.txt is not known yet", Blame.NOBODY, error="waits for …/robots.txt"),
        _done("robots.txt answers 404"),
        _final("our settings forbid to connect to its origin", FORBIDDEN, Blame.FETCH, Slot.FREE),
        _site(
            "robots.txt answers 500, three times",
            "robots.txt of … cannot be read: the site answered 500 (attempt 3 of 3)",
            Slot.FREE,
        ),
        _site(
            "robots.txt does not answer in time, three times",
            f"robots.txt of … cannot be read: {NOT_ANSWERED} (attempt 3 of 3)",
            Slot.FREE,
        ),
    ],
    "Processes, messages and servers": [
        _back("the message is lost", Blame.OURS),
        _done("the message comes twice", besides="the request is written once"),
        _died("the fetcher is killed before the request is written"),
        _died("the fetcher is killed before the answer is stored"),
        _died("a part of the fetcher fails before the request is written"),
        _died("a part of the fetcher fails before the answer is stored"),
        _died(
            "the fetcher is killed while it has this answer alone in hand",
            counts=True,
            besides="what two fetchers died with is read alone",
            proof="tests/integration/fetcher/test_poison.py"
            "::test_what_a_fetcher_dies_of_counts_against_that_fetch_alone",
        ),
        _died(
            "the fetcher is killed, after ten others with it",
            counts=True,
            besides="or after a hundred that had another answer in hand",
            proof="tests/integration/maintenance/test_losses.py::test_a_fetch_that_is_lost_again_and_again_ends",
        ),
        _back(
            "its answer waits in vain to be read alone, as two fetchers had died with it",
            Blame.OURS,
            Slot.USED,
            error="its answer waited too long for its turn to be read alone, …",
            proof="tests/unit/fetcher/test_suspects.py::test_a_suspect_goes_back_before_its_lease_is_over",
        ),
        _unjudged("no memory is left to read its answer", Becomes.AGAIN, "MemoryError"),
        _unjudged("reading its answer fails by another error of ours", Becomes.FAILED, "…"),
        _frozen(f"{FROZEN} before the request is written"),
        _frozen(f"{FROZEN} before the answer is stored"),
        Situation(
            what="the process `ticks` is down",
            blame=Blame.OURS,
            becomes=Becomes.WAITS,
            counts=False,
            slot=Slot.NONE,
            besides="the next tick reserves for it",
        ),
        _done("PostgreSQL goes while the result is stored", log="store_waits_for_database"),
        _final(
            "PostgreSQL refuses the result", "the database refused the result: …", Blame.OURS, log="outcome_refused"
        ),
        _done("the broker is away when `on_done` is called", log="broker_unreachable", besides="sweep calls it"),
    ],
}


def page(text: str) -> str:
    """Return the page with its tables made anew; what stands before and after them is kept."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{chapters()}\n{END}{after}"


def chapters() -> str:
    """Return a chapter for each group of situations, in Markdown."""
    return "\n".join(f"## {group}\n\n{_lists(rows)}" for group, rows in TABLE.items())


def _lists(rows: list[Situation]) -> str:
    """Return a list for each outcome; situations of which the page says the same besides share a line."""
    outcomes: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        outcomes.setdefault(row.outcome, {}).setdefault(row.words, []).append(row.what)
    return "\n".join(f"{outcome}\n\n{_items(same)}" for outcome, same in outcomes.items())


def _items(same: dict[str, list[str]]) -> str:
    return "".join(f"- {'; '.join(whats)}{f': {words}' if words else ''}\n" for words, whats in same.items())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
