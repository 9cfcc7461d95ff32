"""The operators' pages, at the root of the site."""

from django.urls import path

from ops.views import emails, overview

app_name = "ops"
urlpatterns = [
    path("", overview.show, name="overview"),
    path("emails/", emails.show_list, name="emails"),
    path("emails/<int:email_id>/", emails.show, name="email"),
]
