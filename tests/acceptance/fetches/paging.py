"""A task of a user's, for workers of tests: each page of an API says where the next one is."""

import json

from celery import shared_task

from weir import Fetch, request_fetch

TASK = "tests.acceptance.fetches.paging.page_arrived"


@shared_task(name=TASK)
def page_arrived(fetch_id: int) -> None:
    """Ask for the next page; `dedupe`, as the call may come twice."""
    fetch = Fetch.objects.get(pk=fetch_id)
    following = json.loads(fetch.content or b"{}").get("next")
    if following and not Fetch.objects.filter(url=following).exists():
        request_fetch(following, on_done=TASK, dedupe=True, max_attempts=20)
