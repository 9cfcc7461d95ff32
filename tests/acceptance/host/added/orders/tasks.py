from celery import shared_task

from weir import Fetch

from .models import Count, Order


@shared_task
def count():
    Count.objects.create(orders=Order.objects.count())


@shared_task
def invoice_came(fetch_id):
    fetch = Fetch.objects.get(pk=fetch_id)
    Order.objects.filter(invoice_url=fetch.url).update(invoice=fetch.content)
