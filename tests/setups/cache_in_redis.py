"""The cache is in the Redis database of the queues, which `manage.py check` warns of (weir.W011)."""

from project.settings import *  # noqa: F403  a project's settings are taken over so

CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}  # noqa: F405
