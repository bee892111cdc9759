# Writes the number of live sessions to each worker's pod as its deletion cost. Kubernetes removes the pod with the lowest cost first.
# KUBERNETES is the URL of its API, and ACCOUNT the folder of the service account.
set -eu
workers=$(kitfleet workers list --json)
printf '%s' "$workers" | tr -d ' ,"' |
  awk -F: '$1 == "name" { name = $2 } $1 == "live_sessions" { print name, $2 }' |
  while read -r pod sessions; do
    # A worker outside of this namespace has no pod here.
    printf '{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"%s"}}}' "$sessions" |
      curl --fail --silent --show-error --max-time 10 --output /dev/null --request PATCH --data-binary @- \
        --header "Authorization: Bearer $(cat "$ACCOUNT/token")" --header 'Content-Type: application/merge-patch+json' \
        --cacert "$ACCOUNT/ca.crt" "$KUBERNETES/api/v1/namespaces/$(cat "$ACCOUNT/namespace")/pods/$pod" ||
      printf 'cannot annotate the pod %s\n' "$pod" >&2
  done
