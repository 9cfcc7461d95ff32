"""Lists of apps are added to INSTALLED_APPS, and to each other; Django refuses an app that is named twice."""

import weir


def test_no_app_is_named_twice() -> None:
    """Also where a project has one already; its own order stays."""
    installed = ["shop", "django_celery_beat"]
    installed += weir.APPS_MAIL + weir.APPS_FETCHES
    assert installed[:2] == ["shop", "django_celery_beat"]
    assert len(installed) == len(set(installed))
    assert {"weir.workers.mail", "weir.workers.fetches"} <= set(installed)


def test_all_has_each_job() -> None:
    """And each job stands on its own feet, not on those of another one."""
    jobs = (weir.APPS_THROTTLE, weir.APPS_NOTIFICATIONS, weir.APPS_MAIL, weir.APPS_EFFECTS, weir.APPS_FETCHES)
    assert all(set(job) < set(weir.APPS) for job in jobs)
    assert set(weir.APPS_MAIL) & set(weir.APPS_NOTIFICATIONS) == set.intersection(*map(set, jobs))
