from weir import EmailContent, email_kind


@email_kind("order.placed")
def order_placed(*, number: str) -> EmailContent:
    return EmailContent(subject=f"Your order {number}", text="Thank you.")
