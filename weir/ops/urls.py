"""The operators' pages, and /metrics, by which machines read the same numbers.

Include them where you like: `path("weir/", include("weir.ops.urls"))`. They are behind the project's login (LOGIN_URL).
"""

from django.urls import path, re_path

from weir.ops.metrics.views import metrics
from weir.ops.views import (
    acting,
    audit,
    batches,
    effects,
    emails,
    exports,
    fetches,
    overview,
    previews,
    search,
    sites,
    unread,
    watches,
    webhooks,
)
from weir.postgres.own_commits import leave_commits_to

app_name = "weir_ops"
urlpatterns = [
    path("", overview.show, name="overview"),
    path("sites/", sites.show_list, name="sites"),
    path("sites/<str:name>/", sites.show, name="site"),
    path("fetches/", fetches.show_list, name="fetches"),
    path("fetches/<int:fetch_id>/", fetches.show, name="fetch"),
    path("batches/", batches.show_list, name="batches"),
    path("batches/<int:batch_id>/", batches.show, name="batch"),
    path("watches/", watches.show_list, name="watches"),
    path("watches/<int:watch_id>/", watches.show, name="watch"),
    path("webhooks/", webhooks.show_list, name="webhooks"),
    path("webhooks/<int:endpoint_id>/", webhooks.show, name="endpoint"),
    path("unread/", unread.show, name="unread"),
    path("emails/", emails.show_list, name="emails"),
    path("emails/<int:email_id>/", emails.show, name="email"),
    path("emails/<int:email_id>/html/", previews.html, name="email-html"),
    path("effects/", effects.show_list, name="effects"),
    path("effects/<int:effect_id>/", effects.show, name="effect"),
    path("audit/", audit.show_list, name="audit"),
    path("search/", search.show, name="search"),
    path("sites/<str:target>/<slug:what>/", acting.site, name="site-act"),
    path("fetches/<int:target>/<slug:what>/", acting.fetch, name="fetch-act"),
    path("batches/<int:target>/<slug:what>/", acting.batch, name="batch-act"),
    path("watches/<int:target>/<slug:what>/", acting.watch, name="watch-act"),
    path("webhooks/<int:target>/<slug:what>/", acting.endpoint, name="endpoint-act"),
    path("webhooks/<slug:what>/", acting.webhooks, name="webhooks-act"),
    path("emails/<int:target>/<slug:what>/", acting.email, name="email-act"),
    path("emails/kinds/<path:target>/<slug:what>/", acting.kind, name="kind-act"),
    path("effects/<int:target>/<slug:what>/", acting.effect, name="effect-act"),
    path("effects/kinds/<path:target>/<slug:what>/", acting.effect_kind, name="effect-kind-act"),
    path("fetches/<slug:what>/", acting.fetches, name="fetches-act"),
    path("unread/<slug:what>/", acting.unread, name="unread-act"),
    re_path(
        r"^(?P<of>fetches|batches|watches|sites|emails|effects|audit)/export\.(?P<form>csv|jsonl)$",
        exports.export,
        name="export",
    ),
    path("metrics", metrics),
]
leave_commits_to(urlpatterns)
