"""The operators' pages, and /metrics, made with prometheus-client."""

from weir import extras

extras.need("prometheus_client", extra="ops", user="weir.ops")
