"""The HTTP API: what programs ask and change, made with django-ninja."""

from weir import extras

extras.need("ninja", extra="api", user="weir.api")
