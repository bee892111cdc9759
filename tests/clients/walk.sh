# A profile, a sign-in by a popup, an upload and an extraction, by plain calls.
set -euo pipefail
call() { curl -fsS -H "Authorization: Bearer $KITFLEET_API_KEY" -H 'Content-Type: application/json' "$@"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
act() { call "$KITFLEET_URL/v1/sessions/$SESSION/interact" -d "{\"action\": $1}" >act.json; }
open_site() { call "$KITFLEET_URL/v1/sessions/$SESSION/navigate" -d "{\"url\": \"$SITE\"}" >navigated.json; }

PROFILE=$(call "$KITFLEET_URL/v1/profiles" -d '{"name": "walk.sh – Käufer"}' | field "['id']")
SESSION=$(call "$KITFLEET_URL/v1/sessions" -d "{\"profile_id\": \"$PROFILE\"}" | field "['id']")
open_site
act '{"kind": "tap", "target": {"role": "button", "name": "Sign in"}}'
call "$KITFLEET_URL/v1/sessions/$SESSION/wait" -d '{"condition": {"kind": "page"}}' >waited.json
act '{"kind": "fill", "target": {"label": "Name"}, "value": "Zoë Müller"}'
act '{"kind": "tap", "target": {"role": "button", "name": "Continue"}}'
call "$KITFLEET_URL/v1/sessions/$SESSION/wait" -d '{"condition": {"kind": "text", "text": "Hello, Zoë Müller"}}' >waited.json
act "{\"kind\": \"upload\", \"target\": {\"label\": \"Receipt\"}, \"files\": [{\"name\": \"größe.txt\", \"content\": \"$(printf 'abc' | base64)\"}]}"
call "$KITFLEET_URL/v1/sessions/$SESSION/wait" -d '{"condition": {"kind": "text", "text": "größe.txt 3"}}' >waited.json
call -X DELETE "$KITFLEET_URL/v1/sessions/$SESSION"
SESSION=$(call "$KITFLEET_URL/v1/sessions" -d "{\"profile_id\": \"$PROFILE\"}" | field "['id']")
open_site
call "$KITFLEET_URL/v1/sessions/$SESSION/extract" -d '{"extractions": [{"name": "greeting", "selector": "h1", "type": "text"}, {"name": "products", "selector": "li", "type": "list", "extract": {"name": {"selector": "b", "type": "text"}}}, {"name": "price", "selector": "li i", "type": "text", "transform": "number"}]}' >extracted.json
call -X DELETE "$KITFLEET_URL/v1/sessions/$SESSION"
call -X DELETE "$KITFLEET_URL/v1/profiles/$PROFILE"
python3 -c "import json; print(json.dumps(json.load(open('extracted.json'))['value'], sort_keys=True, ensure_ascii=False))"
