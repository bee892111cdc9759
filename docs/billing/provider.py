"""A card provider for trying things out: python3 docs/billing/provider.py [PORT] [WEBHOOK]

It begins purchases and opens portals as Stripe's API does. Whoever opens a purchase's page has paid it: then the webhook is told of the
payment, the subscription and the checkout, in that order, each twice, as providers may.
"""

import hashlib
import hmac
import json
import sys
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 9900
WEBHOOK = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8080/v1/billing/card-webhook"
SECRET = b"whsec_walk"
purchases, remembered = {}, {}


def tell(kind, obj):
    event = {"id": f"evt_{time.time_ns()}", "type": kind, "created": int(time.time()), "data": {"object": obj}}
    body = json.dumps(event).encode()
    for _ in range(2):
        at = int(time.time())
        signed = hmac.new(SECRET, b"%d.%s" % (at, body), hashlib.sha256).hexdigest()
        request = urllib.request.Request(WEBHOOK, body, {"Stripe-Signature": f"t={at},v1={signed}"})
        with urllib.request.urlopen(request) as answer:
            print(kind, answer.status, flush=True)


def pay(number, form):
    customer, subscription = f"cus_{number}", f"sub_{number}"
    metadata = {"account_id": form["metadata[account_id]"], "tier": form["metadata[tier]"]}
    amount = int(form["line_items[0][price_data][unit_amount]"])
    tell("invoice.payment_succeeded", {"id": f"in_{number}", "customer": customer, "subscription": subscription,
                                       "amount_paid": amount, "currency": "usd"})
    end = int(time.time()) + 30 * 86400
    tell("customer.subscription.created", {"id": subscription, "customer": customer, "status": "active", "metadata": metadata,
                                           "current_period_end": end, "cancel_at_period_end": False})
    tell("checkout.session.completed", {"id": f"cs_{number}", "mode": "subscription", "payment_status": "paid", "customer": customer,
                                        "subscription": subscription, "client_reference_id": form["client_reference_id"],
                                        "metadata": metadata})


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        key = self.headers["Idempotency-Key"]
        session = remembered.get(key)
        if session is None and self.path == "/v1/checkout/sessions":
            purchases[number := len(purchases) + 1] = form
            session = {"id": f"cs_{number}", "url": f"http://127.0.0.1:{PORT}/pay/{number}"}
        elif session is None:
            session = {"id": "bps_1", "url": f"http://127.0.0.1:{PORT}/portal/{form['customer']}"}
        if key:
            remembered[key] = session
        self.say(json.dumps(session))

    def do_GET(self):
        number = int(self.path.rsplit("/", 1)[1])
        pay(number, purchases[number])
        self.say("paid\n")

    def say(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", PORT), Provider).serve_forever()
