"""A program that learns of ends over HTTP: it appends each answer to a file, and now and then stores the cursor.

    python reader.py FILE TOKEN PATH URL...

It may be killed anywhere. The cursor is stored after what was read before it, so what is read again is there twice.
"""

import itertools
import json
import os
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

LIMIT = 200
STORED_EVERY = 5


def answers(file: Path) -> list[dict[str, object]]:
    """Return the answers in the file; a line that a killed reader has begun does not count."""
    whole = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in whole]


def read(file: Path, token: str, path: str, urls: list[str]) -> None:
    """Read for ever, from one web process after the other, after the stored cursor."""
    stored = file.with_suffix(".cursor")
    cursor = stored.read_text() if stored.exists() else ""
    file.touch()
    os.truncate(file, file.read_bytes().rfind(b"\n") + 1)  # without a line that a killed reader has begun
    with file.open("ab") as written:
        for number, url in enumerate(itertools.cycle(urls)):
            asking = Request(  # noqa: S310  of the test
                f"{url}/api/v1/{path}?limit={LIMIT}&after={cursor}", headers={"Authorization": f"Bearer {token}"}
            )
            try:
                with urlopen(asking, timeout=30) as answer:  # noqa: S310  as above
                    found = json.load(answer)
            except (URLError, OSError, json.JSONDecodeError):
                continue  # it was killed, or starts
            cursor = found["next"]
            if found["events"]:
                written.write(json.dumps(found).encode() + b"\n")
                written.flush()
            if number % STORED_EVERY == 0:
                new = stored.with_suffix(".new")
                new.write_text(cursor)
                new.replace(stored)


if __name__ == "__main__":
    read(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
