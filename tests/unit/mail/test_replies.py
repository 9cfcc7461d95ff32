"""What replies of SMTP servers mean, as a table: each is one that a server in use gives, or that an RFC has."""

from tests.cases import for_each
from weir.workers.mail.transports.replies import ReplyVerdict, SmtpStep, judge, status

ENTRY, MAIL, RCPT, DATA, CONTENT = SmtpStep
GO_ON, LATER, DOMAIN_LATER, NEVER, HELD, AWAY, UNCLEAR, DOUBTFUL = ReplyVerdict


REPLIES = (
    # Accepted, and replies to another step.
    (MAIL, "250 2.1.0 OK", GO_ON),
    (RCPT, "251 User not local; will forward to <x@y.example>", GO_ON),
    (DATA, "354 Go ahead", GO_ON),
    (CONTENT, "250 2.0.0 OK: queued as 4F1B", GO_ON),
    (MAIL, "354 Go ahead", UNCLEAR),
    (DATA, "250 OK", UNCLEAR),
    (CONTENT, "354 Go ahead", UNCLEAR),
    (RCPT, "150 Hm", UNCLEAR),
    (RCPT, "650 Hm", UNCLEAR),
    (RCPT, "-1 what", UNCLEAR),
    (MAIL, "503 5.5.1 Error: nested MAIL command", UNCLEAR),
    (DATA, "503 5.5.1 Error: need RCPT command", UNCLEAR),
    # The server does not let us in.
    (ENTRY, "421 4.3.2 Too busy", AWAY),
    (ENTRY, "454 4.7.0 TLS not available due to local problem", AWAY),
    (ENTRY, "454 4.7.0 Temporary authentication failure", AWAY),
    (ENTRY, "554 No SMTP service here", HELD),
    (ENTRY, "535 5.7.8 Authentication credentials invalid", HELD),
    # 421 at each step.
    (MAIL, "421 4.3.2 Service shutting down", AWAY),
    (MAIL, "421 too many messages in this connection", AWAY),
    (RCPT, "421 4.3.2 Service shutting down", AWAY),
    (RCPT, "421 4.7.0 Too many messages on this connection", AWAY),
    (RCPT, "421 4.7.28 Our system has detected an unusual rate of mail", DOMAIN_LATER),
    (DATA, "421 4.4.2 Timeout exceeded", AWAY),
    (CONTENT, "421 4.3.2 Service shutting down", LATER),
    # MAIL: about us.
    (MAIL, "550 5.4.5 Daily user sending limit exceeded", HELD),
    (MAIL, "452 4.3.1 Insufficient system storage", HELD),
    (MAIL, "452 Requested action not taken", HELD),
    (MAIL, "450 4.7.1 Too many messages from you", HELD),
    (MAIL, "451 4.3.0 Local error", HELD),
    (MAIL, "454 4.7.0 Throttling failure: Maximum sending rate exceeded", HELD),
    (MAIL, "530 5.7.0 Authentication required", HELD),
    (MAIL, "530 5.7.0 Must issue a STARTTLS command first", HELD),
    (MAIL, "535 5.7.8 Bad credentials", HELD),
    (MAIL, "550 5.7.1 Sender rejected", HELD),
    (MAIL, "550 Sender verify failed", HELD),
    (MAIL, "553 5.7.1 <shop@x.example>: Sender address rejected: not owned by user", HELD),
    (MAIL, "501 5.1.7 Bad sender address syntax", HELD),
    (MAIL, "554 5.7.1 Client host rejected: Access denied", HELD),
    # MAIL: about this e-mail.
    (MAIL, "552 5.3.4 Message size exceeds fixed limit", NEVER),
    (MAIL, "552 Message size exceeds fixed maximum message size", NEVER),
    (MAIL, "550 5.2.3 Message too large", NEVER),
    (MAIL, "554 5.3.4 Message too big for system", NEVER),
    (MAIL, "452 4.3.4 Message too big for now", LATER),
    (MAIL, "504 5.5.4 Parameter not implemented", NEVER),
    (MAIL, "553 5.6.7 Non-ASCII addresses not permitted", NEVER),
    (MAIL, "501 5.5.4 Invalid parameter syntax", NEVER),
    (MAIL, "555 5.5.4 Unsupported option: SMTPUTF8", NEVER),
    # RCPT: this recipient, for now.
    (RCPT, "450 4.7.1 Greylisted, try again in 300 seconds", LATER),
    (RCPT, "450 4.7.1 Client host rejected: Greylisting in action", LATER),
    (RCPT, "451 4.7.1 Come back later", LATER),
    (RCPT, "450 4.2.1 Mailbox busy", LATER),
    (RCPT, "451 4.3.0 <x@y.example>: Temporary lookup failure", LATER),
    (RCPT, "452 4.2.2 The account is over quota", LATER),
    (RCPT, "452 Requested action not taken", LATER),
    (RCPT, "552 5.2.2 Mailbox full", LATER),
    (RCPT, "552 Requested mail action aborted: exceeded storage allocation", LATER),
    (RCPT, "550 5.2.2 Over quota", LATER),
    # RCPT: its domain, for now.
    (RCPT, "450 4.7.1 Too many messages to this domain", DOMAIN_LATER),
    (RCPT, "450 4.7.28 Mail flood detected", DOMAIN_LATER),
    (RCPT, "451 4.4.3 Directory server failure", DOMAIN_LATER),
    (RCPT, "450 4.1.2 Recipient address rejected: Domain not found", DOMAIN_LATER),
    # RCPT: this recipient, for good.
    (RCPT, "550 5.1.1 User unknown", NEVER),
    (RCPT, "550 No such user", NEVER),
    (RCPT, "550 5.7.1 Message refused by the recipient", NEVER),
    (RCPT, "554 5.7.1 <x@y.example>: Recipient address rejected: Access denied", NEVER),
    (RCPT, "550 5.7.1 You are not allowed to send to this group", NEVER),
    (RCPT, "551 5.1.6 User has moved; please try <x@z.example>", NEVER),
    (RCPT, "556 5.1.10 Domain does not accept mail", NEVER),
    (RCPT, "552 5.3.4 Message too big for system", NEVER),
    (RCPT, "552 5.2.3 Message length exceeds administrative limit", NEVER),
    (RCPT, "550 5.1.1 <relay@y.example> User unknown", NEVER),
    (RCPT, "550 5.1.1 relay.y.example says: User unknown", NEVER),
    (RCPT, "599 Whatever", DOUBTFUL),
    (RCPT, "499 Whatever", LATER),
    # RCPT: us.
    (RCPT, "554 5.7.1 <x@y.example>: Relay access denied", HELD),
    (RCPT, "554 5.7.1 <x@y.example>: Recipient address rejected: Relay access denied", HELD),
    (RCPT, "454 4.7.1 <x@y.example>: Relay access denied", HELD),
    (RCPT, "550 5.7.1 Relaying denied", HELD),
    (RCPT, "550 relay not permitted", HELD),
    (RCPT, "550-Verification failed\n550 we do not relay", HELD),
    (RCPT, "551 we do not relay", HELD),
    (RCPT, "551 User not local", HELD),
    (RCPT, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.example", HELD),
    (RCPT, "554 5.7.1 Access denied", HELD),
    (RCPT, "450 4.7.25 Client host rejected: cannot find your hostname", HELD),
    (RCPT, "450 4.1.8 <shop@x.example>: Sender address rejected: Domain not found", HELD),
    (RCPT, "550 5.7.23 SPF validation failed", HELD),
    (RCPT, "530 5.7.57 Client not authenticated to send mail", HELD),
    (RCPT, "452 4.5.3 Too many recipients", HELD),
    (RCPT, "452 Too many recipients received this hour", HELD),
    (RCPT, "452 4.3.1 Insufficient system storage", HELD),
    (RCPT, "550 5.4.6 mail rate exceeded limit", HELD),
    (RCPT, "550 5.4.6 Routing loop detected", NEVER),
    (RCPT, "450 Relaying temporarily denied", HELD),
    (RCPT, "550 5.7.1 <jo.example>: Helo command rejected: Host not found", HELD),
    (RCPT, "550 5.7.1 Sender address rejected: not owned by user", HELD),
    (RCPT, "550 5.7.1 Authentication required", HELD),
    (RCPT, "550 5.7.1 You are not permitted to send mail", HELD),
    (RCPT, "550 5.7.1 Your IP is blocked", HELD),
    (RCPT, "450 4.7.1 Client host rejected: cannot find your hostname", HELD),
    (RCPT, "452 4.5.3 Recipient limit", HELD),
    (RCPT, "550 5.5.3 Recipient limit", HELD),
    (RCPT, "552 Too many recipients", HELD),
    (RCPT, "451 4.3.2 System not accepting network messages", HELD),
    (RCPT, "451 4.3.5 Server configuration error", HELD),
    (RCPT, "521 5.3.2 Host does not accept mail", HELD),
    *((RCPT, f"{code} No", HELD) for code in (432, 454, 525, 530, 534, 535, 538)),
    *((RCPT, f"550 5.{of_us} No", HELD) for of_us in ("1.7", "1.8", "1.90", "7.8", "7.9", "7.10", "7.11", "7.12")),
    *((RCPT, f"550 5.{of_us} No", HELD) for of_us in ("7.13", "7.14", "7.20", "7.26", "7.27", "7.57", "7.60")),
    # DATA.
    (DATA, "451 4.7.1 Come back later", LATER),
    (DATA, "550 5.4.5 Daily sending quota exceeded", HELD),
    (DATA, "432 4.3.2 Concurrent connections limit exceeded", HELD),
    (DATA, "554 5.5.1 No valid recipients", NEVER),
    # The dot.
    (CONTENT, "550 5.7.1 This looks like spam", NEVER),
    (CONTENT, "550 5.7.26 Unauthenticated e-mail is not accepted", NEVER),
    (CONTENT, "554 5.6.0 The content is refused", NEVER),
    (CONTENT, "552 5.3.4 Message too big", NEVER),
    (CONTENT, "552 Too big", NEVER),
    (CONTENT, "550 5.6.9 SMTPUTF8 required", NEVER),
    (CONTENT, "503 What dot?", DOUBTFUL),
    (CONTENT, "451 4.7.1 Service unavailable - try again later", LATER),
    (CONTENT, "452 4.3.1 Insufficient system storage", LATER),
    (CONTENT, "552 5.2.2 Mailbox full", LATER),
    (CONTENT, "550 5.4.5 Daily sending quota exceeded", HELD),
    (CONTENT, "454 4.7.0 Throttling failure: Daily message quota exceeded", HELD),
    (CONTENT, "550 5.7.60 Client does not have permissions to send as this sender", HELD),
)


def test_a_reply_means_what_its_step_code_status_and_words_say() -> None:
    """Who is refused, us or the e-mail, and whether for now or for good."""
    wrong = []
    for step, reply, verdict in REPLIES:
        code, _, said = reply.partition(" ")
        if (meant := judge(step, int(code[:3]), said)) != verdict:
            wrong.append((step, reply, verdict, meant))
    assert wrong == []


@for_each("step", [MAIL, RCPT])
@for_each("code", [550, 553])
def test_a_server_without_enhanced_codes_refuses_letters_by_these(step: SmtpStep, code: int) -> None:
    """RFC 6531, 3.5: then it is this e-mail, not us."""
    assert judge(step, code, "Not these letters", is_utf8=True) == NEVER
    assert judge(MAIL, code, "Not you") == HELD


@for_each(
    ("code", "said", "found"),
    [
        (550, "5.7.1 No", "7.1"),
        (550, "5.7.60", "7.60"),
        (450, "4.2.1 Busy\n4.2.1 Really", "2.1"),
        (550, "4.7.1 No", ""),
        (550, "No 5.7.1", ""),
        (550, "5.7.1.9 No", ""),
        (550, "", ""),
    ],
)
def test_an_enhanced_status_code_stands_first_and_has_the_class_of_its_code(code: int, said: str, found: str) -> None:
    """RFC 2034, 3 and 4: anything else is text."""
    assert status(code, said) == found


def test_every_refusal_means_something() -> None:
    """RFC 5321, 4.3.2: the first digit decides where nothing else does; 503 alone is out of step."""
    meant = {(step, code): judge(step, code, "Hm") for step in SmtpStep for code in range(400, 600)}
    assert {case for case, verdict in meant.items() if verdict == UNCLEAR} == {
        (step, 503) for step in (MAIL, RCPT, DATA)
    }
    assert {case for case, verdict in meant.items() if verdict == GO_ON} == set()
