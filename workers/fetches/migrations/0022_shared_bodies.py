"""The body of a fetch may be one that is kept once, and may be deleted before the fetch."""

from django.db import migrations, models

# Whoever deletes the body of a fetch, a version that knows no kept bodies among them: purge looks whether another fetch
# has the same. Rows are only inserted, so that no transaction waits for another one.
RELEASE = """
    CREATE FUNCTION weir_fetches_release_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO weir_fetches_releasedbody (sha256) SELECT DISTINCT sha256 FROM removed WHERE sha256 IS NOT NULL;
        RETURN NULL;
    END
    $$;
    CREATE FUNCTION weir_fetches_release_replaced() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO weir_fetches_releasedbody (sha256) VALUES (OLD.sha256);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_body_removed AFTER DELETE ON weir_fetches_fetchbody REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION weir_fetches_release_removed();
    CREATE TRIGGER weir_fetches_body_replaced AFTER UPDATE ON weir_fetches_fetchbody FOR EACH ROW
    WHEN (OLD.sha256 IS NOT NULL AND OLD.sha256 IS DISTINCT FROM NEW.sha256)
    EXECUTE FUNCTION weir_fetches_release_replaced()
"""
FORGET = """
    DROP FUNCTION weir_fetches_release_replaced, weir_fetches_release_removed CASCADE
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0021_kept_bodies")]

    operations = [
        migrations.AddField("fetchbody", "sha256", models.BinaryField(help_text="of its KeptBody", null=True)),
        migrations.AlterField("fetchbody", "content", models.BinaryField(null=True)),
        migrations.SeparateDatabaseAndState(  # the column keeps its name
            state_operations=[
                migrations.RemoveField("fetchbody", "content"),
                migrations.AddField(
                    "fetchbody",
                    "own",
                    models.BinaryField(
                        db_column="content", help_text="NULL: it is a KeptBody, or was deleted", null=True
                    ),
                ),
            ]
        ),
        migrations.RunSQL(RELEASE, FORGET),
    ]
