"""The operators' pages, at the root of the site, and what machines read of the same numbers."""

from django.urls import path

from ops.metrics.views import metrics
from ops.views import emails, fetches, overview, sites, unread

app_name = "ops"
urlpatterns = [
    path("", overview.show, name="overview"),
    path("sites/", sites.show_list, name="sites"),
    path("sites/<str:name>/", sites.show, name="site"),
    path("fetches/", fetches.show_list, name="fetches"),
    path("fetches/<int:fetch_id>/", fetches.show, name="fetch"),
    path("unread/", unread.show, name="unread"),
    path("emails/", emails.show_list, name="emails"),
    path("emails/<int:email_id>/", emails.show, name="email"),
    path("metrics", metrics),
]
