"""The peer: a Celery task that sends an e-mail. Run as a script, this module is its worker.

With `acks_late`, Celery acknowledges the message when the task has ended; with `reject_on_worker_lost`, the message is
delivered again if the process of the task was killed. Celery's manual says that such a task must be idempotent, as it
may be executed twice. Whether an e-mail was accepted, nothing tells the second execution.
"""

from celery import Celery
from django.conf import settings
from django.core.mail import send_mail

from benchmarks.fetches.celery_peer import OPTIONS

QUEUE = "peer-mail"
PROCESSES = 2

app = Celery("peer_mail", set_as_current=False)
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,  # as the manual advises with `acks_late`
    broker_connection_retry_on_startup=True,
)


@app.task(
    name="peer_mail.send",
    acks_late=True,
    reject_on_worker_lost=True,
    autoretry_for=(OSError,),  # of the mail server, as smtplib raises them
    retry_backoff=True,
)
def send(recipient: str) -> None:
    """Send the e-mail of an order to its customer."""
    send_mail("Your order is on its way", "It left the warehouse today.", None, [recipient])


if __name__ == "__main__":
    app.worker_main(["worker", "--pool", "prefork", "--concurrency", str(PROCESSES), "--queues", QUEUE, *OPTIONS])
