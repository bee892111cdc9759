# A profile, a sign-in by a popup, an upload and an extraction, with the SDK for Python.
import json
import os

from kitfleet import Kitfleet

site = os.environ["SITE"]
with Kitfleet() as client:
    profile = client.profiles.create(name="walk.py – Käufer")
    with client.sessions.create(profile_id=profile.id) as session:
        session.navigate(site)
        session.get_by_role("button", name="Sign in").tap()
        session.wait_for_page()
        session.get_by_label("Name").fill("Zoë Müller")
        session.get_by_role("button", name="Continue").tap()
        session.wait_for_text("Hello, Zoë Müller")
        session.get_by_label("Receipt").upload(("größe.txt", b"abc"))
        session.wait_for_text("größe.txt 3")
    with client.sessions.create(profile_id=profile.id) as session:
        session.navigate(site)
        values = session.extract(
            {
                "greeting": "h1",
                "products": {"selector": "li", "type": "list", "extract": {"name": {"selector": "b", "type": "text"}}},
                "price": {"selector": "li i", "transform": "number"},
            }
        )
    client.profiles.delete(profile.id)
print(json.dumps(values, sort_keys=True, ensure_ascii=False))
