"""What says that an address does not exist, and what only looks like it."""

from tests.cases import for_each
from weir.workers.mail.bounces.statuses import exact_status, is_of_a_dead_address


@for_each(
    ("status", "diagnostic"),
    [
        ("5.1.1", ""),
        ("5.1.1", "550 5.1.1 <kim@example.com>: Recipient address rejected: User unknown in relay recipient table"),
        ("5.0.0", "550 5.1.1 User unknown"),  # Exim writes 5.0.0 whatever was said
        ("5.0.0", "550 no such user"),
        ("5.0.0", "550-no mailbox here by that name"),
        ("5.0.0", "550: <kim@example.com>: User unknown"),
        ("5.0.0", "550 The account kim does not exist here"),
        ("", "Unrouteable address"),
        ("5.0.0", "all relevant MX records point to non-existent hosts"),
        ("5.4.4", "Host or domain name not found. Name service error for name=x.example type=A: Host not found"),
        ("5.1.2", "unable to look up host x.invalid: Name or service not known"),
        ("5.1.10", "550 5.1.10 Recipient not found"),
        ("5.1.1", "550 5.1.1 The mailbox is inactive"),
        ("5.7.1", "550 5.7.1 <kim@example.com>: no such person here"),
        ("5.1.1", "550-5.1.1 that account does not exist. Please try 550 5.1.1 https://mx.example/later/blocked"),
        ("5.1.1", "550 5.1.1 kim@blocked.example: user unknown (host spam-filter.example)"),
    ],
)
def test_an_address_that_does_not_exist_is_dead(status: str, diagnostic: str) -> None:
    """By what the refusing server said, its status or its words, or else by the status of the one that reports."""
    assert is_of_a_dead_address(status, diagnostic)


@for_each(
    ("status", "diagnostic"),
    [
        ("", ""),
        ("5.0.0", ""),
        ("5.0.0", "550 mailbox unavailable"),
        ("4.1.1", "450 4.1.1 User unknown"),
        ("5.1.1", "450 4.1.1 User unknown"),
        ("5.2.2", "552 5.2.2 mailbox full"),
        ("5.2.1", "550 5.2.1 This mailbox gets mail at a rate that is too high"),
        ("5.2.1", "550 5.2.1 The mailbox is disabled"),
        ("5.2.1", "550 5.2.1 <kim@example.com>... User unknown"),  # RFC 3463, 3.3: "the mailbox exists"
        ("5.0.0", "550 5.2.0 User unknown"),
        ("5.0.0", "550 : User unknown"),  # without a name: the server had judged the content
        ("5.0.0", "550: : User unknown"),
        ("5.1.0", "550-: User unknown"),
        ("5.1.0", "550 5.1.0 <shop@example.com> sender rejected"),
        ("5.1.0", "550 5.1.0 the host is not allowed to send mail (SPF)"),
        ("5.1.1", "550 5.1.1 sent to too many recipients this hour"),
        ("5.1.3", "550 5.1.3 see https://zen.spamhaus.org/query"),
        ("5.1.1", "550 5.7.1 IP blacklisted"),
        ("5.1.1", "550 5.1.1 Access denied"),
        ("5.1.1", "550 5.1.1 Refused due to preferences of the recipient"),
        ("5.1.1", "550 not today"),  # sendmail writes 5.1.1 for each 550
        ("5.1.8", "550 5.1.8 the sender's domain does not exist"),
        ("5.0.0", "550 relaying to that user is denied: unknown user"),
        ("5.4.4", "Host not found, try again"),
        ("5.4.4", "Host or domain name not found. Name service error for name=x.example type=A: Unexpected reply"),
        (
            "5.4.4",
            "Host or domain name not found. Name service error for name=x.example type=A: Host found but no data",
        ),
        ("5.0.0", "550 Blocked: unknown user"),
        ("5.0.0", "Unknown recipient, or not taken: 550 rejected"),  # a digest, and what was said
        ("5.0.0", "550 User unknown or mailbox disabled"),
    ],
)
def test_what_may_be_otherwise_tomorrow_or_is_about_us_is_not(status: str, diagnostic: str) -> None:
    """One status, or one word, that speaks of another reason is enough."""
    assert not is_of_a_dead_address(status, diagnostic)


def test_words_about_a_refused_content_are_not_believed() -> None:
    """The recipient had been taken: some say "unknown user" of one who wants no such e-mails. A status is."""
    assert not is_of_a_dead_address("5.0.0", "550 Unknown user", is_of_content=True)
    assert is_of_a_dead_address("5.0.0", "550 5.1.1 Unknown user", is_of_content=True)


def test_an_exact_status_counts_before_a_vague_one() -> None:
    """Receivers of the signal get it."""
    assert exact_status("5.0.0", "550 5.1.1 x") == "5.1.1"
    assert exact_status("5.0.0", "450 4.1.1 x") == "5.0.0"
    assert exact_status("5.2.2", "550 5.1.1 x") == "5.2.2"
    assert exact_status("", "550 5.1.1 x") == "5.1.1"
    assert exact_status("", "550 x") == ""
