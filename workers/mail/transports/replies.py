"""What a reply of an SMTP server means: a table, and the function that looks it up.

A reply is judged by the step that it answers, its code (RFC 5321, 4.2), its enhanced status code (RFC 3463, RFC 5248),
and, where servers use one code for two things, by words that their replies have in common. A code that no row names is
judged by its first digit (RFC 5321, 4.2.1 and 4.3.2): 4yz is for now, 5yz is for good.
"""

import re
from enum import StrEnum, auto
from fnmatch import fnmatchcase
from typing import NamedTuple


class Step(StrEnum):
    """What the server has replied to."""

    ENTRY = auto()  # the connection, EHLO, STARTTLS, AUTH
    MAIL = auto()
    RCPT = auto()
    DATA = auto()
    CONTENT = auto()  # the dot


class Verdict(StrEnum):
    """What a reply means."""

    GO_ON = auto()
    LATER = auto()  # this e-mail is refused for now
    DOMAIN_LATER = auto()  # and so is every other one to the recipient's domain
    NEVER = auto()  # this e-mail is refused for good
    HELD = auto()  # we are refused, whatever the e-mail
    AWAY = auto()  # the server leaves us, whatever the e-mail
    UNCLEAR = auto()  # no reply to this step: the conversation is out of step


class Row(NamedTuple):
    """Replies to these steps that match a code, a status and the words. Patterns are fnmatch's, with spaces between."""

    steps: tuple[Step, ...]
    codes: str
    statuses: str  # subject and detail of RFC 3463, without the class; `*` also matches a reply that has none
    verdict: Verdict
    words: str = ""  # a regular expression; found in small letters


ENTRY, MAIL, RCPT, DATA, CONTENT = Step
ENVELOPE = (MAIL, RCPT, DATA)
AFTER_MAIL = (RCPT, DATA)
TRANSACTION = (*ENVELOPE, CONTENT)
CLOSING = 421  # RFC 5321, 3.8: after it the server closes the connection, at whatever step

# Of us, in servers' own words. Postfix judges client and sender at RCPT, too (smtpd_delay_reject).
RELAYING = r"\brelay(?:ing|ed)?\b(?![.-])"
US = (
    RELAYING + r"|\bclient host\b|\bsender (?:address|verify|is )|\bhelo command\b|\bauthenticat|\blog ?in\b"
    r"|\bnot (?:allowed|permitted|authori[sz]ed) to send\b(?! to\b)|\bsend as\b|\byour (?:ip|host|account)\b"
)
OUR_LIMIT = r"\b(?:sending|daily|hourly|mail)\b.*\b(?:quota|limit|rate)\b"
RATE = r"\brate\b|\btoo (?:many|fast|quickly)\b|\bthrottl|\blimit"

# The first row that matches counts.
TABLE = (
    # RFC 5321, 4.3.5 and 3.1 (554), RFC 7504 (521), RFC 3207 (454), RFC 4954 (5yz to AUTH).
    Row((ENTRY,), "4??", "*", Verdict.AWAY),
    Row((ENTRY,), "5??", "*", Verdict.HELD),
    # RFC 5321, 4.2.4: 503 is a reply to the sequence of commands, not to this one.
    Row((*ENVELOPE,), "503", "*", Verdict.UNCLEAR),
    # RFC 4954, 6: a login is missing, too weak, expired, disabled, or fails for now (432, 454).
    Row(TRANSACTION, "432 454 525 530 534 535 538", "*", Verdict.HELD),
    # RFC 5248: login and encryption. 7.57 and 7.60 are Exchange's: no anonymous sender, no right to send as this one.
    Row(TRANSACTION, "*", "7.8 7.9 7.10 7.11 7.12 7.13 7.14 7.57 7.60", Verdict.HELD),
    # RFC 3463, 3.2: the sender's address. RFC 7505: its domain takes no e-mail. 1.90 is Exchange's daily limit.
    Row(TRANSACTION, "*", "1.7 1.8 1.90 7.27", Verdict.HELD),
    # RFC 3463, 3.5 (mail system congestion); Gmail's and others' daily limit. Zoho says 4.6 of its rate.
    Row(TRANSACTION, "5??", "4.5", Verdict.HELD),
    Row(TRANSACTION, "5??", "4.6", Verdict.HELD, OUR_LIMIT),
    # RFC 7372: SPF, DKIM and reverse DNS of ours. After the dot they judge this content.
    Row(ENVELOPE, "*", "7.2[0-6]", Verdict.HELD),
    # --- MAIL names nobody but us: what is not about this e-mail's size or letters is about us.
    # RFC 1870, 6.1 (2, 3): larger than the server's limit, or than its space for now.
    Row((MAIL,), "5??", "2.3 3.4", Verdict.NEVER),
    Row((MAIL,), "552", "*", Verdict.NEVER),
    Row((MAIL,), "4??", "3.4", Verdict.LATER),
    # RFC 6531, 3.5: the server does not take these letters. (553 without a status: see judge.)
    Row((MAIL,), "5??", "6.*", Verdict.NEVER),
    # RFC 5321, 4.2.2, and 4.1.1.11 (555): the parameters, such as SIZE and BODY, are this e-mail's.
    Row((MAIL,), "501 504 555", "*", Verdict.NEVER),
    # RFC 5321, 3.8: it shuts down. RFC 5321, 4.2.3 (450, 451, 452), RFC 3463, 3.4 and 3.8: storage, load, rate, policy.
    Row((MAIL,), "421", "*", Verdict.AWAY),
    Row((MAIL,), "4?? 5??", "*", Verdict.HELD),
    # --- RCPT and DATA: the recipient, or we.
    # RFC 5321, 3.8: it leaves, perhaps as this connection has carried enough. RFC 5248: 7.28 is Gmail's, of its domain.
    Row(AFTER_MAIL, "421", "7.28", Verdict.DOMAIN_LATER),
    Row(AFTER_MAIL, "421", "*", Verdict.AWAY),
    # RFC 6647: greylisting, in whose replies some servers name the client.
    Row(AFTER_MAIL, "4??", "*", Verdict.LATER, r"\bgr[ea]y-?list"),
    # RFC 5321, 3.6.2: a server that does not relay for us, in its words, also where it calls that temporary.
    Row(AFTER_MAIL, "4?? 5??", "*", Verdict.HELD, RELAYING),
    # RFC 5321, 3.4, RFC 3463, 3.2 (1.6): it has moved away. Without that, 551 says that the server does not relay.
    Row(AFTER_MAIL, "551", "1.*", Verdict.NEVER),
    Row(AFTER_MAIL, "551", "*", Verdict.HELD),
    # RFC 3463, 3.8 (7.1): refused by policy. Postfix' 554 also is what it says about clients and relaying.
    Row(AFTER_MAIL, "4?? 5??", "7.*", Verdict.HELD, US),
    Row(AFTER_MAIL, "554", "7.1", Verdict.NEVER, r"\brecipient\b|\bmailbox\b"),
    Row((RCPT,), "554", "7.1", Verdict.HELD),
    # RFC 5321, 4.5.3.1.10, RFC 3463, 3.6 (5.3): too many recipients. We name one, so it counts them over time.
    Row(AFTER_MAIL, "4?? 5??", "5.3", Verdict.HELD),
    Row(AFTER_MAIL, "45? 552", "*", Verdict.HELD, r"\btoo many recipients"),
    # RFC 3463, 3.4: the server's own disk, load and configuration; RFC 7504: it takes no e-mail.
    Row(AFTER_MAIL, "4??", "3.1 3.2 3.5", Verdict.HELD),
    Row(AFTER_MAIL, "521", "*", Verdict.HELD),
    # RFC 3463, 3.3 and 3.4: larger than the mailbox or the server takes.
    Row(AFTER_MAIL, "5??", "2.3 3.4", Verdict.NEVER),
    # RFC 5321, 4.5.3.1.10, RFC 3463, 3.3 (2.2): 552 is for now; the mailbox may be emptied.
    Row(AFTER_MAIL, "552", "*", Verdict.LATER),
    Row(AFTER_MAIL, "5??", "2.2", Verdict.LATER),
    # RFC 3463, 3.2 (1.2), 3.5: name service, route and hosts of the recipient's domain. RFC 5248: 7.28, too much.
    Row(AFTER_MAIL, "4??", "1.2 4.* 7.28", Verdict.DOMAIN_LATER),
    Row(AFTER_MAIL, "4??", "7.*", Verdict.DOMAIN_LATER, RATE),
    # RFC 3463, 3.3 (2.2): a full mailbox, of which the server thinks after the dot.
    Row((CONTENT,), "5??", "2.2", Verdict.LATER),
    # RFC 5321, 4.2.1: this recipient (450, 451, 550, 553), or after the dot this content (RFC 3463, 3.7 and 3.8: spam).
    Row((RCPT, DATA, CONTENT), "4??", "*", Verdict.LATER),
    Row((RCPT, DATA, CONTENT), "5??", "*", Verdict.NEVER),
)
_STATUS = re.compile(r"([245])\.(\d{1,3}\.\d{1,3})(?!\S)")
_IN_BRACKETS = re.compile(r"<[^>]*>")


def judge(step: Step, code: int, said: str, *, is_utf8: bool = False) -> Verdict:
    """Return what a reply to `step` means; `is_utf8` if the e-mail was announced with SMTPUTF8."""
    if code == 354 if step == DATA else 200 <= code < 300:  # noqa: PLR2004  RFC 5321, 4.2.1 and 4.3.2
        return Verdict.GO_ON
    if is_utf8 and step in {MAIL, RCPT} and code in {550, 553} and not status(code, said):
        return Verdict.NEVER  # RFC 6531, 3.5: the codes of a server that does not take these letters
    words = _IN_BRACKETS.sub("", said).lower()  # an address may hold any word
    return next((row.verdict for row in TABLE if _matches(row, step, code, status(code, said), words)), Verdict.UNCLEAR)


def status(code: int, said: str) -> str:
    """Return subject and detail of the enhanced status code, such as `7.1`; "" if there is none of the code's class."""
    found = _STATUS.match(said)
    return found[2] if found and found[1] == str(code)[0] else ""


def _matches(row: Row, step: Step, code: int, of_status: str, words: str) -> bool:
    return (
        step in row.steps
        and any(fnmatchcase(str(code), pattern) for pattern in row.codes.split())
        and any(fnmatchcase(of_status, pattern) for pattern in row.statuses.split())
        and re.search(row.words, words, re.DOTALL) is not None
    )
