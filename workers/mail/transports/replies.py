"""Decides what a reply of an SMTP server means, with a table and a function that looks replies up.

Four things about a reply count, in this order: the step that it answers, words that servers' replies have in common,
its enhanced status code (RFC 3463, RFC 5248), and its code (RFC 5321, 4.2). The code is last because servers use one
code for many things, and some use only 550. For the remaining replies the first digit decides (RFC 5321, 4.2.1 and
4.3.2): 4yz is a refusal for now, 5yz a refusal for good. A refusal because of policy is about us before the content is
sent, and about the content afterwards. A refusal for good that names neither us nor the e-mail is doubtful. Then it
matters whether the relay accepts other e-mails.
"""

import re
from enum import StrEnum, auto
from fnmatch import fnmatchcase
from typing import NamedTuple


class SmtpStep(StrEnum):
    """The step that a reply answers."""

    ENTRY = auto()  # the connection, EHLO, STARTTLS or AUTH
    MAIL = auto()
    RCPT = auto()
    DATA = auto()
    CONTENT = auto()  # the dot


class ReplyVerdict(StrEnum):
    """What a reply means."""

    GO_ON = auto()
    LATER = auto()  # this e-mail is refused for now
    DOMAIN_LATER = auto()  # every e-mail to the recipient's domain is refused for now
    NEVER = auto()  # this e-mail is refused for good
    HELD = auto()  # we are refused, whatever the e-mail is
    AWAY = auto()  # the server leaves the conversation, whatever the e-mail is
    UNCLEAR = auto()  # this is not a reply to this step: client and server are out of step
    DOUBTFUL = auto()  # either this e-mail is refused for good, or we are: the reply does not say which


class ReplyRow(NamedTuple):
    """Gives the verdict for replies to these steps that match a code, a status and the words."""

    steps: tuple[SmtpStep, ...]
    codes: str  # patterns of fnmatch, separated by spaces
    statuses: str  # such patterns of subject and detail (RFC 3463), without the class; `*` also matches no status
    verdict: ReplyVerdict
    words: str = ""  # a regular expression of whole words, in lower case; "" matches any reply


ENTRY, MAIL, RCPT, DATA, CONTENT = SmtpStep
ENVELOPE = (MAIL, RCPT, DATA)
AFTER_MAIL = (RCPT, DATA)
AFTER_MAIL_AND_DOT = (*AFTER_MAIL, CONTENT)
TRANSACTION = (*ENVELOPE, CONTENT)
LONGEST = 1_000  # characters of a reply that are read
CLOSING = 421  # RFC 5321, 3.8: after this reply, at any step, the server closes the connection

# Words that servers' replies have in common, and that show whom or what a reply is about. `_says` finds them.
# About us: our login, a relay that does not serve us, our address, our account, and how much we may send.
LOGIN = r"auth|authent\w*|log(?:ged)? ?in|credentials"
RELAYING = r"relay(?:ing|ed)?(?! recipient table|=)|rcpthosts|not a gateway|(?:handle|cannot deliver) mail for"
OUR_ADDRESS = (
    r"sender(?:s|'s)?(?! guidelines)|mail from|from(?:: domain| address| header)|not verified|spf|send ?as\S*"
    r"|not (?:allowed|permitted|authori[sz]ed) to send(?! to)|your (?:e-?mail )?address"
)
OUR_ACCOUNT = (
    r"your (?:\w+ )?(?:account|tenant)|submi(?:ssion|tter)|outgoing|outbound|sending (?:paused|suspended|denied)"
)
OUR_LIMIT = (
    r"from sending|send limit|sending (?:limit|quota|rate|activity|ips?|mta|domain)|this hour|per (?:day|session)"
    r"|(?:daily|hourly)(?: \S+){0,3} (?:limit|quota)|(?:emails|messages|failures) per hour"
    r"|ratelimit \"(?:user|\w*_out_\w*)\""
)
OUR_SENDING = f"{LOGIN}|{RELAYING}|{OUR_ADDRESS}|{OUR_ACCOUNT}|{OUR_LIMIT}"
# About our host: its name, its address, and block lists, some of which are only named as hosts.
OUR_HOST = (
    r"client|[eh]h?elo\w*|ips?|ptr\S*|rdns|reverse \w+|host network|remotehost|allowed to connect"
    r"|your (?:\w+ )?(?:host|server|network|domain)"
    r"|reputation|rbls?|black ?list\w*|block ?list|(?<!not )listed (?:at|in|on)|blocked (?:using|- see)"
    r"|[\w.:/-]*(?:dns_?[br]l|spamhaus|spamcop|sorbs|openspf)\S*"
)
US = f"{OUR_SENDING}|{OUR_HOST}"
# About the recipient, who is sent too much, is unknown, or has a full mailbox. Postfix writes "Recipient address
# rejected:" whoever is meant, so the words after that count.
THEIR_RATE = r"receiving mail|recipient(?! address)(?:'s)? (?:\S+ ){1,4}(?:limit|rate)"
FULL = r"(?:over)?quota|(?:is|mailbox) full|full mailbox|pleine|storage|disk space"
UNKNOWN = r"(?:user|recipient|mailbox|account) (?:\S+ )?(?:unknown|not found)|unknown user|no such user|not? exist"
RECIPIENT = (
    r"recipients?(?! address rejected:)|address rejected: access denied|mailbox|user|account|target address|group"
    r"|mailing list|alias|destinataire"
)
# About neither us nor the recipient.
FOR_NOW = r"(?:try|retry)(?: again)? later|temporar(?:y|il?y)"
RATE = (
    r"rate\W?(?:limit\w*)?|throttl\w*|limit\w*|frequency|volume|too (?:fast|quickly|frequent)"
    r"|too (?:many|much) (?:\w+ )?(?:messages|e-?mails|mails?|requests|connec\w+|sessions)"
)
SIZE = r"size|too (?:big|large|long)|line limit|hops|loop|headers?|attachments?"
POLICY = (
    r"polic\w*|spam\w*|junk ?mail|abuse|unusual|suspicious\w*|prohibit\w*|administrative|denied|refused?|block\w*|dmarc"
)
ADDRESS = r"unrout\w* address|host unknown|domain not found|rcpt to|not listed in|(?:characters|letters) in address"
OF_CONTENT = r"(?:anti-)?spam\w*|virus\w*|malware|infected|phish\w*|unsolicited|malformed|content\w*|body|prohibited"
JUDGED_CONTENT = r"dmarc|dkim|urls? (?:in|within)|s?uri?bl|accepted for policy reasons"

# The first row that matches a reply counts.
TABLE = (
    # RFC 5321, 4.3.5 and 3.1 (554), RFC 7504 (521), RFC 3207 (454), RFC 4954 (5yz to AUTH).
    ReplyRow((ENTRY,), "4??", "*", ReplyVerdict.AWAY),
    ReplyRow((ENTRY,), "5??", "*", ReplyVerdict.HELD),
    # RFC 5321, 4.2.4: 503 is about the sequence of commands, not about this command. A login may be missing.
    ReplyRow(ENVELOPE, "503", "*", ReplyVerdict.HELD, LOGIN),
    ReplyRow(ENVELOPE, "503", "7.*", ReplyVerdict.HELD),
    ReplyRow(ENVELOPE, "503", "*", ReplyVerdict.UNCLEAR),
    # RFC 3463, 3.3 (2.1) and 3.8 (7.1): this recipient gets too much for now, or lets only some senders write to it.
    ReplyRow(TRANSACTION, "4?? 5??", "*", ReplyVerdict.LATER, THEIR_RATE),
    ReplyRow(TRANSACTION, "5??", "*", ReplyVerdict.NEVER, r"by (?:the |this )?recipient|resolver\.rst\S*"),
    ReplyRow(TRANSACTION, "5??", "7.12? 7.13?", ReplyVerdict.NEVER),  # Exchange Online's page on 5.7.1xx
    # RFC 7489, 10.3, RFC 7372, 3.1, RFC 3463, 3.7: after the dot, the server judges this content.
    ReplyRow((CONTENT,), "5??", "7.2[0-26] 7.30", ReplyVerdict.NEVER),
    ReplyRow((CONTENT,), "5??", "*", ReplyVerdict.NEVER, JUDGED_CONTENT),
    # Gmail's page on 4.7.2x and 4.7.3x, RFC 5248 (7.28): after the dot, Gmail takes less from us for now.
    ReplyRow((CONTENT,), "4??", "7.2? 7.3?", ReplyVerdict.DOMAIN_LATER),
    # RFC 4954, 6: a login is missing, too weak, expired, disabled, or fails for now (432, 454).
    ReplyRow(TRANSACTION, "432 454 525 530 534 535 538", "*", ReplyVerdict.HELD),
    # RFC 5248: login and encryption. Exchange's 7.57 and 7.60 refuse anonymous senders, and our use of this sender.
    ReplyRow(TRANSACTION, "*", "7.8 7.9 7.10 7.11 7.12 7.13 7.14 7.57 7.60", ReplyVerdict.HELD),
    # RFC 3463, 3.2: the sender's address. RFC 7505: its domain takes no e-mail. 1.90 is Exchange's daily limit.
    ReplyRow(TRANSACTION, "*", "1.7 1.8 1.90 7.27", ReplyVerdict.HELD),
    # RFC 3463, 3.5 (mail system congestion); Gmail's and others' daily limit. Zoho says 4.6 for its rate.
    ReplyRow(TRANSACTION, "5??", "4.5", ReplyVerdict.HELD),
    # RFC 7372: SPF and reverse DNS judge our host. DKIM, and several checks together, judge this content (see above).
    ReplyRow(ENVELOPE, "*", "7.2[0-6]", ReplyVerdict.HELD),
    ReplyRow((CONTENT,), "5??", "7.2[3-5]", ReplyVerdict.HELD),
    # Exchange Online's page: our address, sender or tenant is banned, or has sent too much.
    ReplyRow(TRANSACTION, "5??", "7.50[12368] 7.51[01] 7.6[0-4]? 7.7?? 7.23[23]", ReplyVerdict.HELD),
    # --- MAIL names only our address: so a reply that is not about this e-mail's size or letters is about us.
    # RFC 1870, 6.1 (2, 3): the e-mail is larger than the server's limit, or than its present space.
    ReplyRow((MAIL,), "5??", "2.3 3.4", ReplyVerdict.NEVER),
    ReplyRow((MAIL,), "552", "*", ReplyVerdict.HELD, US),
    ReplyRow((MAIL,), "552", "*", ReplyVerdict.NEVER),
    ReplyRow((MAIL,), "4??", "3.4", ReplyVerdict.LATER),
    # RFC 6531, 3.5: the server does not take these letters. (553 without a status: see judge.)
    ReplyRow((MAIL,), "5??", "6.*", ReplyVerdict.NEVER),
    # RFC 5321, 4.1.1.11 (504, 555), RFC 3463, 3.6 (5.2, 5.4): the parameters, such as SIZE and BODY, are this e-mail's.
    ReplyRow((MAIL,), "504 555", "5.2", ReplyVerdict.HELD),
    ReplyRow((MAIL,), "504 555", "*", ReplyVerdict.HELD, US),
    ReplyRow((MAIL,), "504 555", "*", ReplyVerdict.NEVER),
    ReplyRow((MAIL,), "501", "5.4", ReplyVerdict.NEVER),
    # RFC 5321, 3.8: the server shuts down. RFC 5321, 4.2.3 (450, 451, 452), RFC 3463, 3.4 and 3.8: storage, load, rate
    # or policy.
    ReplyRow((MAIL,), "421", "*", ReplyVerdict.AWAY),
    ReplyRow((MAIL,), "4?? 5??", "*", ReplyVerdict.HELD),
    # --- RCPT and DATA: either the recipient or we are refused.
    # RFC 5321, 3.8: the server leaves, perhaps because this connection has carried enough e-mails. RFC 5248: with 7.28,
    # Gmail refuses e-mails to its domain.
    ReplyRow(AFTER_MAIL, "421", "7.28", ReplyVerdict.DOMAIN_LATER),
    ReplyRow(AFTER_MAIL, "421", "*", ReplyVerdict.AWAY),
    # --- RCPT, DATA and the dot: words show who is refused. Policy alone is about us before the content is sent, and
    # about the content afterwards.
    # RFC 6647: greylisting; some servers name the client in such replies.
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "*", ReplyVerdict.LATER, r"gr[ea]y-?list\w*"),
    # RFC 5248 (7.28), the pages of Gmail, Exchange Online and Outlook.com: the receiver takes less from us for now.
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "7.28 7.[5-8]??", ReplyVerdict.DOMAIN_LATER),
    # RFC 5321, 3.6.2 and 7.9, RFC 3463, 3.8 (7.1, filtering by host): we are refused, at any of these steps.
    ReplyRow(AFTER_MAIL_AND_DOT, "4?? 5??", "*", ReplyVerdict.HELD, OUR_SENDING),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.NEVER, UNKNOWN),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.HELD, OUR_HOST),
    # RFC 5321, 3.4, RFC 3463, 3.2 (1.6): the recipient has moved. Without that status, the server does not relay.
    ReplyRow(AFTER_MAIL, "551", "1.*", ReplyVerdict.NEVER),
    ReplyRow(AFTER_MAIL, "551", "*", ReplyVerdict.HELD),
    # RFC 5321, 4.5.3.1.10, RFC 3463, 3.6 (5.3): too many recipients. We name one, so the server counts over time.
    ReplyRow(AFTER_MAIL_AND_DOT, "4?? 5??", "5.3", ReplyVerdict.HELD),
    ReplyRow(AFTER_MAIL_AND_DOT, "4?? 5??", "*", ReplyVerdict.HELD, r"too many recipients"),
    # RFC 3463, 3.4: the server's own disk, load and configuration. RFC 7504: the server takes no e-mail at all.
    ReplyRow(AFTER_MAIL, "4??", "3.1 3.2 3.5", ReplyVerdict.HELD),
    ReplyRow(AFTER_MAIL, "452", "*", ReplyVerdict.HELD, r"system storage"),
    ReplyRow(AFTER_MAIL, "521", "*", ReplyVerdict.HELD),
    # RFC 3463, 3.3 (2.2): a full mailbox, which may be emptied. RFC 5321, 4.5.3.1.10: 552 to a recipient is for now.
    ReplyRow(AFTER_MAIL_AND_DOT, "4?? 5??", "2.2", ReplyVerdict.LATER),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.LATER, FULL),
    # RFC 3463, 3.3 and 3.4: the e-mail is larger than the mailbox or the server takes. RFC 5321, 6.3: a loop.
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "2.3 3.4", ReplyVerdict.NEVER),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.NEVER, SIZE),
    ReplyRow(AFTER_MAIL, "552", "*", ReplyVerdict.LATER),
    # RFC 3463, 3.2 (1.2), 3.5: name service, route and hosts of the recipient's domain, or its rate.
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "1.2 4.*", ReplyVerdict.DOMAIN_LATER),
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "2.*", ReplyVerdict.LATER),
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "*", ReplyVerdict.DOMAIN_LATER, RATE),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.HELD, RATE),
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "*", ReplyVerdict.HELD, OUR_HOST),
    # The code refuses for good, the words for now: a host has a fault.
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.DOUBTFUL, rf"(?:{RECIPIENT})(?!\w)[\s\S]*\b(?:{FOR_NOW})"),
    # RFC 3463, 3.8 (7.0, 7.1): if the words name the recipient, policy refuses the recipient; else us, because the
    # server has not seen the content.
    ReplyRow(AFTER_MAIL, "5??", "*", ReplyVerdict.NEVER, RECIPIENT),
    ReplyRow(AFTER_MAIL, "5??", "7.[0-2]", ReplyVerdict.HELD),
    ReplyRow(AFTER_MAIL, "5??", "*", ReplyVerdict.HELD, POLICY),
    # RFC 5321, 4.2.1: this recipient (450, 451), or after the dot this content, for now.
    ReplyRow(AFTER_MAIL_AND_DOT, "4??", "*", ReplyVerdict.LATER),
    # RFC 3463, 3.2, 3.3 and 3.5 (4.4): the recipient's address, mailbox or domain; 3.7: these letters, or this content.
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "1.[1-9] 1.10 2.[14] 4.4 6.*", ReplyVerdict.NEVER),
    ReplyRow(AFTER_MAIL, "5??", "*", ReplyVerdict.NEVER, ADDRESS),
    ReplyRow((CONTENT,), "5??", "*", ReplyVerdict.NEVER, f"{OF_CONTENT}|{RECIPIENT}"),
    ReplyRow(AFTER_MAIL_AND_DOT, "5??", "*", ReplyVerdict.DOUBTFUL),
)
_STATUS = re.compile(r"#?([245])\.(\d{1,3}\.\d{1,3})[:;,]?(?!\S)|.*\(#([245])\.(\d{1,3}\.\d{1,3})\b", re.DOTALL)
_NO_WORDS = re.compile(r"<[^>]*>|\?\S+")  # addresses and the queries of URLs, which may contain any word


def judge(step: SmtpStep, code: int, said: str, *, is_utf8: bool = False) -> ReplyVerdict:
    """Return what a reply to `step` means; `is_utf8` says that the e-mail was announced with SMTPUTF8."""
    if code == 354 if step == DATA else 200 <= code < 300:  # noqa: PLR2004  RFC 5321, 4.2.1 and 4.3.2
        return ReplyVerdict.GO_ON
    of_status, words = status(code, said), _NO_WORDS.sub("", said[:LONGEST]).lower()
    if is_utf8 and step in {MAIL, RCPT} and code in {550, 553} and not (of_status or _says(US, words)):
        return ReplyVerdict.NEVER  # RFC 6531, 3.5: the server does not take these letters
    return next((row.verdict for row in TABLE if _matches(row, step, code, of_status, words)), ReplyVerdict.UNCLEAR)


def status(code: int, said: str) -> str:
    """Return subject and detail of the enhanced status, such as `7.1`; "" if there is none with the code's class."""
    found = _STATUS.match(said[:LONGEST])
    digit, rest = (found[1] or found[3], found[2] or found[4]) if found else ("", "")
    return rest if digit == str(code)[0] else ""


def _matches(row: ReplyRow, step: SmtpStep, code: int, of_status: str, words: str) -> bool:
    return (
        step in row.steps
        and any(fnmatchcase(str(code), pattern) for pattern in row.codes.split())
        and any(fnmatchcase(of_status, pattern) for pattern in row.statuses.split())
        and _says(row.words, words)
    )


def _says(pattern: str, words: str) -> bool:
    """Return whether one of these words stands by itself, not as a part of an address or of a host name."""
    return not pattern or re.search(rf"(?<![\w.@/-])(?:{pattern})(?!\w|[.@-]\w)", words) is not None
