"""The three shops of the tutorial, on this machine: each says what its tea costs, and one of them soon asks for less.

python examples/price_sites.py
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PRICES = {8101: ["4.90"], 8102: ["5.20", "4.20"], 8103: ["4.80"]}  # by port; the last one stays


class Shop(BaseHTTPRequestHandler):
    """Answers /tea with the next price of the shop on this port."""

    def do_GET(self) -> None:
        prices = PRICES[self.connection.getsockname()[1]]
        if self.path != "/tea":
            self.send_error(404)
            return
        price = prices.pop(0) if len(prices) > 1 else prices[0]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"price": price}).encode())


if __name__ == "__main__":
    for port in PRICES:
        threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", port), Shop).serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{port}/tea", flush=True)
    print("Three shops are open. Ctrl-C closes them.", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("Closed.")
