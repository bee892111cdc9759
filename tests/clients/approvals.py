# A step that waits for approval is approved once, and another one is declined by a new plan, with the SDK for Python.
import json
import os
import urllib.request

from kitfleet import Kitfleet

site = os.environ["SITE"]
message = f'open {site}pay?by=python, tap the "Pay now" button, wait for the heading "Paid", extract the heading as receipt'
with Kitfleet() as client, client.agent_sessions.create(label="approvals.py – Käufer") as agent:

    def listed() -> "list[str]":
        return [waiting.step.id for waiting in client.approvals.list(limit=1) if waiting.agent_session_id == agent.id]

    asked = agent.send(message)
    statuses = [step.status for step in asked.intents]
    assert listed() == [step.id for step in asked.waiting], listed()
    approved = asked.approve(options={"idempotency_key": f"{asked.turn_id}-1"})
    # The answer was lost: the same message with the same key returns the same turn.
    again = asked.approve(options={"idempotency_key": f"{asked.turn_id}-1"})
    assert again.to_dict() == approved.to_dict(), again
    assert listed() == []
    receipt = approved.results[-1]

    declined = agent.send(message)
    assert listed() == [step.id for step in declined.waiting], listed()
    agent.send("reload the page")
    assert listed() == [], listed()
    late = declined.approve()
with urllib.request.urlopen(site + "payments?by=python") as answer:
    payments = int(answer.read())
print(json.dumps({"payments": payments, "asked": statuses, "approved": [step.status for step in approved.intents], "receipt": receipt, "late": [late.kind, late.intents]}))
