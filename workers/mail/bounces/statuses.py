"""Decides whether a report says that an address does not exist (RFC 3463, 3; IANA's registry of enhanced status codes).

An address that is taken for dead gets no more e-mails, and nobody is told. So only certain reports count: each status
in the report must say that the address is dead, or give no reason, and no word may give another reason. The status of
the reporting server is often only a summary: Exim writes 5.0.0 for every failure, sendmail 5.1.1 for every bare `550`.
The refusing server's reply (Diagnostic-Code) is nearer to the cause, and a status in that reply is nearest.
"""

import re

# Statuses that say that the address does not exist. 5.1.7 and 5.1.8 are about the sender. A status 5.2.x says that the
# mailbox exists (RFC 3463, 3.3), whatever the words beside it are.
_DEAD = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"})
# Statuses that give no reason, or that servers also use for addresses that do not exist: the words decide.
_VAGUE = frozenset({"5.1.0", "5.1.351", "5.3.0", "5.4.0", "5.4.4", "5.4.310", "5.5.0", "5.7.1"})


def replies(classes: str) -> str:
    """Return a pattern of replies and statuses of these classes, such as `550 no` and `5.1.1`.

    The pattern does not match numbers in host names and dates.
    """
    code = rf"(?<![\w.\[-])[{classes}]\d\d(?:[ -]|: )(?!\d\d? [A-Z])"
    return rf"{code}|(?<![\d.])[{classes}]\.\d{{1,3}}\.\d{{1,3}}(?!\.?\d)"


_PASSING = re.compile(rf"{replies('4')}|\btry(?:ing)? again$|, try again\b")
_STATUS = re.compile(r"(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)")
_REPLY = re.compile(r"(?<![\w.\[-])5\d\d(?=[ :,-])")
# "550 : User unknown" instead of "550 <kim@example.com>: User unknown": servers of au reply so to the content, when
# there is no recipient to name.
_NAMES_NOBODY = re.compile(r"(?<![\w.\[-])5\d\d(?:[ -]|: ?): ")
# A word that is an address, a host or a URL. Such a word may contain any of the words below by chance.
_NAME = re.compile(r"@|\w\.[a-z]|://", re.IGNORECASE)
_WHOSE = r"(?:user|mailbox|mail box|recipient|addressee|address|account|alias|local[ -]part|e-?mail)"
_IS_GONE = (
    r"(?:does|do|did)(?:n't| not) (?:exist|have an?)",
    r"not exist",
    r"(?:is |was |are )?(?:un|not )known",
    r"(?:is |are )?not found",
    r"(?:wasn't|isn't|could(?:n't| not) be|can ?not be) found",
    r"not listed in",
    r"(?:is )?non-?existent",
    r"is invalid",
    r"(?:is )?not a valid",
    r"is not valid",
    r"(?:is )?not recognized",
    r"no longer (?:exists|valid)",
)
_DEAD_WORDS = re.compile(
    "|".join(
        (
            rf"\b(?:no such|unknown|non-?existent|invalid|no) (?:\w+ ){{0,2}}{_WHOSE}s?\b(?! error)",
            rf"\b{_WHOSE}s?\b(?: \S+){{0,6}}? (?:{'|'.join(_IS_GONE)})",
            r"\bunknown (?:local[ -]part|host|domain)\b",
            r"\bno such (?:domain|host|person)\b",
            r"\bnot our (?:user|customer)\b",
            r"\bnot a valid (?:mailbox|user)\b",
            r"\b(?:recip|recipient)notfound\b",
            r"\bnosuchuser\b",
            r"\bhost (?:not found|unknown)",  # Postfix begins every look-up error with "Host or domain name not found"
            r"\bdomain(?: \S+){0,3}? does not exist\b",
            r"\bdomain not found\b",
            r"\bcouldn't find any host named\b",
            r"\bunrouteable (?:mail )?(?:domain|address)",
            r"\bnon-?existent hosts?\b",
            r"\bhost address lookups failed permanently",
            r"\bname or service not known\b",
        )
    ),
    re.IGNORECASE,
)
# Words that give another reason, whatever the status is: the sender, lists, policies, or a state that may pass.
_OTHER_WORDS = re.compile(
    r"\bsender|\bfrom address|\bmail from\b|\bspf\b|\bdkim\b|\bdmarc\b|\bptr\b|\breverse\b|\b(?:helo|ehlo)\b"
    r"|\bip address|\byour ip\b|\bclient host|\bauthenti|\bauthori[sz]"
    r"|\brelaying\b|\bto relay\b|\bnot relay|\brelay (?:access|not)"
    r"|spam|\bjunk|block|black ?list|\brbl\b|dnsbl|gr[ea]y-?list|(?<!not )\blisted\b|\breputation|\babus|unsolicited"
    r"|\bbulk\b|\bvirus|\bmalware|\bcontent\b|\bbanned\b|\bsecurity\b|\bpolic(?:y|ies)|\bden(?:y|ied)\b|\bpermi(?:t|ss)"
    r"|\bnot allowed|\brestrict|\bmoderat|\bsubscri|\brates?\b|\blimit|\bquota|\bfull\b|\bexceed|\btoo m(?:any|uch)"
    r"|\bpreference|\brefused due|\bstorage\b|\btemporar|\blater\b|\btime[ -]?out|\bloop\b|\bcouldn't create\b",
    re.IGNORECASE,
)
# Words about a mailbox that exists, or may exist. A text that has such words beside dead words is not certain.
_UNSURE_WORDS = re.compile(
    r"\bdisabled\b|\binactiv|\bsuspen|\bexpired?\b|\bverif|\b(?:may|might) (?:not|be|have)\b|\bor (?:mailbox|access)",
    re.IGNORECASE,
)
# Names of block lists. They count even in host names and URLs: a server that refuses because of a list names the list.
_LISTS = re.compile(r"spamhaus|spamcop|dnsbl|\brbl\b|black-?list|block-?list|barracudacentral|sorbs", re.IGNORECASE)


def is_of_a_dead_address(status: str, diagnostic: str, *, is_of_content: bool = False) -> bool:
    """Return whether the report says for certain that the address does not exist.

    `status` is the report's own status. `diagnostic` is what the refusing server said, or else the reason that the
    reporting server gives. A server that refused the content (`is_of_content`) had accepted the recipient before. Some
    servers then say "unknown user" about a recipient who does not want such e-mails.
    """
    said = _STATUS.findall(diagnostic)
    if _PASSING.search(f"{status} {diagnostic}") or not all(_may_be_dead(each) for each in (status, *said) if each):
        return False
    if _OTHER_WORDS.search(_words(diagnostic)) or _LISTS.search(diagnostic):
        return False
    if any(each in _DEAD for each in said):
        return True
    reply = _REPLY.search(diagnostic)
    if not said and not reply and status in _DEAD:
        return True  # the reporting server itself found that the address does not exist
    if is_of_content or _NAMES_NOBODY.search(diagnostic):
        return False
    words = _words(diagnostic[reply.start() :] if reply else diagnostic)  # a server's summary may precede the reply
    return bool(_DEAD_WORDS.search(words)) and not _UNSURE_WORDS.search(words)


def _words(text: str) -> str:
    return " ".join(word for word in text.split() if not _NAME.search(word))


def first_status(text: str) -> str:
    """Return the first enhanced status in a text; an empty string if there is none."""
    found = _STATUS.search(text)
    return found[1] if found else ""


def exact_status(status: str, diagnostic: str) -> str:
    """Return the report's status; if that has no detail (x.0.0), the status in the refusing server's reply."""
    if status and not status.endswith(".0.0"):
        return status
    return next((each for each in _STATUS.findall(diagnostic) if each[0] == (status or each)[0]), status)


def _may_be_dead(status: str) -> bool:
    return status in _DEAD or status in _VAGUE or status.startswith("5.0.")
