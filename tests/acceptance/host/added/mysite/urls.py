from django.urls import include, path

from orders import views

urlpatterns = [
    path("api/", include("api.urls")),
    path("orders/", views.place),
    path("totals/", views.totals),
]
