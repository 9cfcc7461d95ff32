"""URLs: the operators' pages, the API, the admin, the bell, mail, the keys of signatures, and pages on this process.

These pages say whether the process can work.
"""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from project.checkout import LOCAL
from project.health import healthz, livez
from project.readiness import readyz

handler400 = "weir.api.answers.bad_request"
urlpatterns = [
    path("", include("weir.ops.urls")),
    path("api/", include("weir.api.urls")),
    path("sign-in/", include("project.logins.urls")),
    path("admin/", admin.site.urls),
    path("", include("weir.signatures.urls")),
    path("bell/", include("weir.notifications.web.urls")),
    path("mail/", include("weir.workers.mail.web.urls")),
    path("livez", livez),
    path("readyz", readyz),
    path("healthz", healthz),
]

if settings.WEIR_DEMO_PAGE:
    urlpatterns += [path("demo/", include("demo.bell.urls"))]
if (LOCAL / "urls.py").is_file():
    urlpatterns = [path("", include("local.urls")), *urlpatterns]  # so that the user's URLs win
