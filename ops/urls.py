"""The operators' pages, at the root of the site."""

from django.urls import path

from ops.views import overview

app_name = "ops"
urlpatterns = [
    path("", overview.show, name="overview"),
]
