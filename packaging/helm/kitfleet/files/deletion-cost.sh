# Says of each worker's pod how many sessions live there, as what it costs to delete it: of several, Kubernetes ends that with the least.
# KUBERNETES is where its API is, and ACCOUNT the folder of the service account.
set -eu
workers=$(kitfleet workers list --json)
printf '%s' "$workers" | tr -d ' ,"' |
  awk -F: '$1 == "name" { name = $2 } $1 == "live_sessions" { print name, $2 }' |
  while read -r pod sessions; do
    # One that is no pod of this namespace is somebody else's to end.
    printf '{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"%s"}}}' "$sessions" |
      curl --fail --silent --show-error --max-time 10 --output /dev/null --request PATCH --data-binary @- \
        --header "Authorization: Bearer $(cat "$ACCOUNT/token")" --header 'Content-Type: application/merge-patch+json' \
        --cacert "$ACCOUNT/ca.crt" "$KUBERNETES/api/v1/namespaces/$(cat "$ACCOUNT/namespace")/pods/$pod" ||
      printf 'the pod %s was told nothing\n' "$pod" >&2
  done
