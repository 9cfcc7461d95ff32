"""What a status says of an address (RFC 3463, 3; the IANA's registry of enhanced status codes)."""

# The address does not exist, or will never take e-mails again. Not 5.1.7 and 5.1.8, which are about the sender, nor a
# full mailbox (5.2.2) and policy (5.7.x), which may be otherwise tomorrow.
OF_A_DEAD_ADDRESS = frozenset({"5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})


def is_of_a_dead_address(status: str) -> bool:
    """Tell whether it is of no use to write to the address again."""
    return status in OF_A_DEAD_ADDRESS
