"""The sites that the pages name, as one program: a page for each path, by http and https, until its input ends.

python sites.py CERTIFICATE KEY
"""

import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HAVE_ONE_PAGE = {"example.com", "example.net", "example.org"}  # as the real ones
PAGE = b"<!doctype html>\n<title>Example Domain</title>\n"


class Site(BaseHTTPRequestHandler):
    """Answers with the same page at each path, but for sites that have one; none has a robots.txt."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_missing = self.path == "/robots.txt" or (self.headers["Host"] in HAVE_ONE_PAGE and self.path != "/")
        status, body = (404, b"") if is_missing else (200, PAGE)
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_values: object) -> None:  # noqa: A002  http.server's name
        """Say nothing."""


def main(certificate: str, key: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    plain, secure = ThreadingHTTPServer(("", 80), Site), ThreadingHTTPServer(("", 443), Site)
    secure.socket = tls.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, secure):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
