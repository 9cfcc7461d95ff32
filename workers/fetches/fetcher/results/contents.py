"""Contents: the part of an answer's body that is kept, and what is wrong with the body. Pure."""

from dataclasses import replace
from typing import Final

from weir.workers.fetches.fetcher.results.decoding import Decoded, codings, decoded, too_large
from weir.workers.fetches.jobs import Answer, Flaw
from weir.workers.fetches.robots import rules

PARTIAL: Final = 206
UNASKED_PART: Final = "a part of the body, although the whole was asked for"
BODILESS: Final = frozenset({204, 304})  # their headers describe the body of another answer (RFC 9110, 6.4.1)
ALL_THERE: Final = frozenset({Flaw.NONE, Flaw.ODD})
UNREADABLE: Final = frozenset({Flaw.CUT, Flaw.BROKEN})
FIRST_S: Final = 0.01  # seconds of the processor, in which nearly every body is decompressed
HURRIED_S: Final = 0.001  # seconds of the processor, in which a body of some 500 KB is decompressed
UNREAD: Final = "the body was not decompressed in time: too many bodies take long"


class OverBudget(Exception):
    """The body takes longer to decompress than the budget that was given."""


class ForStorage(Exception):
    """The content of the answer is so large that it goes to a storage, and not through memory (large.py)."""


def is_packed(answer: Answer) -> bool:
    """Return whether reading the body may take time."""
    return bool(answer.body) and not is_bodiless(answer) and bool(codings_of(answer))


def content_of(
    answer: Answer, max_body: int, *, keep: bool, budget_s: float | None = None, stored_from: int | None = None
) -> Decoded:
    """Return the content of the answer. Of a flawed body, it is empty; with `keep`, it is the part that came.

    Raises OverBudget if decompressing takes longer than `budget_s`. With a budget of 0, nothing is decompressed, and
    the body counts as cut off. Raises ForStorage if the content has `stored_from` bytes, or more.
    """
    if is_bodiless(answer):
        return Decoded(content=b"")
    if answer.job.is_robots:
        return _robots(answer, budget_s)
    found = Decoded(content=b"")
    if keep or answer.flaw is Flaw.NONE:
        most = max_body if stored_from is None else min(max_body, stored_from - 1)
        found = _read(answer, most, budget_s)
        if len(found.content) > most and most < max_body:
            raise ForStorage
    found = with_flaw(answer, found, max_body)
    if found.flaw in ALL_THERE:
        return found
    return replace(found, content=found.content[:max_body] if keep else b"")


def with_flaw(answer: Answer, found: Decoded, max_body: int) -> Decoded:
    """Return what was found of the content, with the flaw that the answer itself has."""
    if answer.flaw is Flaw.NONE:
        return found
    return replace(found, flaw=answer.flaw, reason=answer.reason or too_large(max_body))


def is_unasked_part(answer: Answer) -> bool:
    """Return whether only a part of the body was sent, and no part was asked for."""
    return answer.status_code == PARTIAL and not _asks_for_part(answer)


def _asks_for_part(answer: Answer) -> bool:
    return "range" in map(str.lower, answer.job.request_headers)


def is_bodiless(answer: Answer) -> bool:
    """Return whether the answer has no body, whatever its headers say of one."""
    return answer.status_code in BODILESS or answer.job.method == "HEAD"


def _robots(answer: Answer, budget_s: float | None) -> Decoded:
    if answer.status_code not in rules.SUCCESS:
        return Decoded(content=b"")  # there is no robots.txt, and the page that says so is not read
    return robots_txt(answer, _read(answer, rules.MAX_BYTES, budget_s))


def robots_txt(answer: Answer, found: Decoded) -> Decoded:
    """Return the part of a robots.txt that counts, from its decoded body.

    Of a long file, the beginning counts. A file that is cut off is tried again: a rule after the cut would be lost for
    a day. A body that is text, although the headers call it compressed, is read as text: by RFC 9309, this does
    not make a site unreachable.
    """
    if found.flaw in UNREADABLE and rules.is_text(answer.body):
        found = Decoded(content=answer.body)
    elif found.flaw in UNREADABLE:
        return Decoded(content=b"", flaw=Flaw.CUT, reason=found.reason)
    elif found.flaw is Flaw.TOO_LARGE:
        found = Decoded(content=found.content)
    if answer.reason and len(found.content) <= rules.MAX_BYTES:
        return Decoded(content=b"", flaw=Flaw.CUT, reason=answer.reason)
    return found


def _read(answer: Answer, most: int, budget_s: float | None) -> Decoded:
    names = codings_of(answer)
    if not names and len(answer.body) <= most:  # as for nearly all answers
        return Decoded(content=answer.body)
    if names and budget_s == 0:
        return Decoded(content=b"", flaw=Flaw.CUT, reason=UNREAD)
    is_whole = answer.flaw is Flaw.NONE and not (answer.job.is_robots and len(answer.body) > most)
    found = decoded(answer.body, names, most, is_whole=is_whole, budget_s=budget_s)
    if found.flaw is Flaw.TOO_LONG and budget_s is not None:
        raise OverBudget(found.reason)
    return found


def codings_of(answer: Answer) -> list[str]:
    """Return the codings of the body in the order in which they were applied: transfer codings come last.

    A part of an encoded body that was asked for cannot be decoded: it is kept as it came.
    """
    if answer.status_code == PARTIAL and _asks_for_part(answer):
        return []
    values = [value.decode("latin-1") for name, value in answer.headers if name.lower() == b"content-encoding"]
    transfer = [value.decode("latin-1") for name, value in answer.headers if name.lower() == b"transfer-encoding"]
    return (
        codings(values) + [coding for coding in codings(transfer) if coding != "chunked"] if values or transfer else []
    )
