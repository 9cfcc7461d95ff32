from celery import shared_task

from .models import Count, Order


@shared_task
def count():
    Count.objects.create(orders=Order.objects.count())
