"""The cache is in the Redis database of the queues, and the warning of `manage.py check` (weir.W011) is silenced."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}  # noqa: F405
SILENCED_SYSTEM_CHECKS = [*SILENCED_SYSTEM_CHECKS, "weir.W011"]  # noqa: F405
