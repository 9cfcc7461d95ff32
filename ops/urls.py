"""The operators' pages, at the root of the site."""

from django.urls import URLPattern, URLResolver, path

from ops.metrics.views import metrics

app_name = "ops"
urlpatterns: list[URLPattern | URLResolver] = [path("metrics", metrics)]
