"""Bodies of robots.txt files: what of an answer counts. Pure."""

from typing import Final

from workers.fetches.fetcher.results.decoding import Decoded, Flaw
from workers.fetches.jobs import Answer
from workers.fetches.robots import rules

UNREADABLE: Final = frozenset({Flaw.CUT, Flaw.BROKEN})


def robots_txt(answer: Answer, found: Decoded) -> Decoded:
    """Return what counts of a robots.txt whose body was decoded so.

    Of a long one, a beginning. One that is cut off is tried again: a rule behind the cut would be lost for a day. What
    is text, though it says that it is compressed, is read as it is, as RFC 9309 has no site closed for that.
    """
    if found.flaw in UNREADABLE and rules.is_text(answer.body):
        found = Decoded(content=answer.body)
    elif found.flaw in UNREADABLE:
        return Decoded(content=b"", flaw=Flaw.CUT, reason=found.reason)
    elif found.flaw is Flaw.TOO_LARGE:
        found = Decoded(content=found.content)
    if answer.cut and len(found.content) <= rules.MAX_BYTES:
        return Decoded(content=b"", flaw=Flaw.CUT, reason=answer.cut)
    return found
