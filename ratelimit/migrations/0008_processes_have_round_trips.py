from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0007_deleted_sites")]

    operations = [migrations.DeleteModel(name="RoundTrip")]
