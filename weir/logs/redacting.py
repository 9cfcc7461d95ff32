"""Masks known passwords in the text of a server's error, which may repeat what the server was sent."""

import errno
import os
import re
from collections.abc import Collection, Sequence

LONG = 8  # characters: a secret of this length is not inside a word by accident
SHORT = 4  # characters: a secret of this length is not in a sentence by accident
# The words that occur in the sentences of drivers. A mask in place of such a word would garble the sentence, and would
# reveal that the word is the password.
_ORDINARY = frozenset(
    re.findall(
        r"\w+",
        """
    access address administrator against allowed already another argument arguments asynchronous attempt
    authentication authorization available back been broken broker busy canceled cannot certificate channel check
    clear client clients close closed closing clusterdown command conf configured connect connecting connection
    connections could crash currently database dataset default denied details detected disabled discarding disk does
    encryption ended enough entry error errors execabort exist expected expired failed fails failure fatal file files
    found from given gssapi handshake have host hostname ident improperly incorrect inerror info internal into intrans
    invalid isolation issuer known language limit limits loading local login lost many master masterdown match maximum
    maxmemory memory method misconf missing moved must name names needed network noauth node none noperm noscript
    number obsolete open operation options pair pass password peer permission permissions permitted persist pgsql pool
    port ports postgres postgresql protocol provided psycopg query reached read reading readonly ready received
    reconnection recovery redis refused rejected remaining replica replicas replication requested require required
    requires reserved resetting resolution resource response returned role roles rolling root running saslname save
    scram script secret self send server service session sessions shut shutdown shutting signed slots slow snapshots
    socket sorry starting startup statement superuser support supported system temporary terminating that there this
    through timed timeout transaction translate unable unexpected unexpectedly unix unknown unreachable unsupported
    until used user username valkey value verify version warning weir when while with without word write writing wrong
    wrongpass wrongtype your
        """,
    )
) | {word for number in errno.errorcode for word in re.findall(r"\w+", os.strerror(number).lower())}


class Redactor:
    """Masks secrets, whose patterns are compiled once."""

    def __init__(self, secrets: Sequence[str], names: Collection[str] = ()) -> None:
        """Mask these secrets, except those that a sentence may contain by accident.

        A secret of fewer than SHORT characters is not masked, nor is a word that drivers use, nor one of the `names` of
        users and hosts. A mask would reveal such a secret, because the sentence is the same whatever the password is.
        """
        ordinary = _ORDINARY.union(name.lower() for name in names)
        longest_first = sorted(secrets, key=len, reverse=True)
        known = [secret for secret in longest_first if len(secret) >= SHORT and secret.lower() not in ordinary]
        self._patterns = [(secret, _pattern(secret)) for secret in known]

    def in_sentence(self, text: str) -> str:
        """Return a driver's sentence with *** in place of each secret, even of one that is a plain word or a number.

        A secret that is only a part of a word stays. A secret of at least LONG characters, not all of them letters, is
        masked everywhere.
        """
        for secret, pattern in self._patterns:
            if secret in text:
                text = pattern.sub("***", text)
        return text

    def in_any_text(self, text: str) -> str:
        """Return any text with *** in place of each secret, except plain words and numbers.

        A text may contain those by accident.
        """
        for secret, pattern in self._patterns:
            if secret in text and not (secret.isalpha() or secret.isdecimal()):
                text = pattern.sub("***", text)
        return text


def _pattern(secret: str) -> re.Pattern[str]:
    word = re.escape(secret)
    is_anywhere = len(secret) >= LONG and not secret.isalpha()
    return re.compile(word if is_anywhere else rf"(?<!\w){word}(?!\w)")


NOTHING = Redactor(())
