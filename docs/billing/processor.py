"""A crypto processor for trying things out: python3 docs/billing/processor.py [PORT] [WEBHOOK]

It makes payments as the API of NOWPayments does. Whoever opens a payment's page has paid it: then the webhook is told that it is finished,
and after that what came before, each twice, as processors may. Whoever opens /again/ID has paid it by another payment.
"""

import hashlib
import hmac
import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 9901
WEBHOOK = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8080/v1/billing/crypto-webhook"
SECRET = b"ipn_walk"
payments = {}


def tell(payment, status):
    payment["payment_status"] = status
    body = json.dumps(payment).encode()
    signed = json.dumps(payment, sort_keys=True, separators=(",", ":")).encode()
    signature = hmac.new(SECRET, signed, hashlib.sha512).hexdigest()
    for _ in range(2):
        with urllib.request.urlopen(urllib.request.Request(WEBHOOK, body, {"x-nowpayments-sig": signature})) as answer:
            print(payment["payment_id"], status, answer.status, flush=True)


class Processor(BaseHTTPRequestHandler):
    def do_POST(self):
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = 5745459419 + len(payments)
        payments[number] = {
            "payment_id": number, "payment_status": "waiting", "pay_address": f"bc1q{number}", "pay_amount": 0.0010425,
            "actually_paid": 0, "fee": {"currency": "btc", "depositFee": 0}, **wanted,
        }
        self.say(201, json.dumps({**payments[number], "payment_id": str(number)}))

    def do_GET(self):
        payment = payments[int(self.path.rsplit("/", 1)[1])]
        if self.path.startswith("/v1/"):
            return self.say(200, json.dumps(payment))
        payment["actually_paid"] = payment["pay_amount"]
        if self.path.startswith("/again/"):
            tell({**payment, "payment_id": payment["payment_id"] + 1, "parent_payment_id": payment["payment_id"]}, "finished")
            return self.say(200, "paid again\n")
        for status in ("finished", "waiting", "confirming"):
            tell(payment, status)
        payment["payment_status"] = "finished"
        self.say(200, "paid\n")

    def say(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", PORT), Processor).serve_forever()
