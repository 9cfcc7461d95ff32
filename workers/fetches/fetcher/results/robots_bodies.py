"""Bodies of robots.txt files: what of an answer is read. Pure."""

from workers.fetches.fetcher.results.decoding import BodyBroken, BodyRefused, decoded
from workers.fetches.jobs import Answer
from workers.fetches.robots import rules


class RobotsCut(BodyRefused):
    """A robots.txt was cut off: a rule behind the cut would be lost for a day, so it is asked for again."""


def robots_txt(answer: Answer, encoding: str) -> bytes:
    """Return a robots.txt, or a beginning of it that is long enough; raises RobotsCut.

    An encoding that cannot be undone is taken for none, as RFC 9309 has no site closed for it. So is one that the body
    does not have. What comes with other statuses than 2xx is not read.
    """
    if answer.status_code not in rules.SUCCESS:
        return b""
    try:
        content = decoded(answer.body, encoding, rules.MAX_BYTES, cut=True)
    except BodyBroken as error:
        if not rules.is_text(answer.body):
            raise RobotsCut(str(error)) from error
        content = answer.body
    except BodyRefused:
        content = answer.body
    if answer.cut and len(content) <= rules.MAX_BYTES:
        raise RobotsCut(answer.cut)
    return content[: rules.MAX_BYTES + 1]
