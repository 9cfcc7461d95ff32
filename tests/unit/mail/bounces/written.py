"""Delivery reports as mail servers write them."""

STATUS = "message/delivery-status"


def of_parts(
    *parts: str, headers: str = "", kind: str = "multipart/report; report-type=delivery-status", boundary: str = "b"
) -> bytes:
    """Return a report of these parts, each with its header."""
    divided = "".join(f"--{boundary}\n{part}\n" for part in parts)
    head = f'From: MAILER-DAEMON@mx.example\n{headers}Content-Type: {kind}; boundary="{boundary}"\n\n'
    return f"{head}{divided}--{boundary}--\n".encode("utf-8", "surrogateescape")


def part(kind: str, content: str) -> str:
    """Return a part of a report."""
    return f"Content-Type: {kind}\n\n{content}"


def of_recipient(
    recipient: str,
    *,
    status: str = "5.1.1",
    action: str = "failed",
    diagnostic: str = "",
    fields: str = "",
    returned: str = "",
    headers: str = "",
) -> bytes:
    """Return a report about one recipient, with further fields of all recipients, and of the returned header."""
    said = diagnostic or f"550 {status} <{recipient}>: User unknown"
    told = f"Final-Recipient: rfc822; {recipient}\nAction: {action}\nStatus: {status}\nDiagnostic-Code: smtp; {said}\n"
    return of_parts(
        part(STATUS, f"Reporting-MTA: dns; mx.example\n{fields}\n{told}"),
        part("text/rfc822-headers", f"Subject: Your order\n{returned}"),
        headers=headers,
    )
