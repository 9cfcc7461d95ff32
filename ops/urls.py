"""The operators' pages, at the root of the site."""

from django.urls import path

from ops.views import emails, overview, unread

app_name = "ops"
urlpatterns = [
    path("", overview.show, name="overview"),
    path("unread/", unread.show, name="unread"),
    path("emails/", emails.show_list, name="emails"),
    path("emails/<int:email_id>/", emails.show, name="email"),
]
