"""The operators' pages, at the root of the site."""

from django.urls import URLPattern, URLResolver

app_name = "ops"
urlpatterns: list[URLPattern | URLResolver] = []
