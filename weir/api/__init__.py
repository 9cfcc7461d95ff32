"""The HTTP API, through which programs ask for and change things. Made with django-ninja."""

from weir import extras

extras.need("ninja", extra="api", user="weir.api")
