{{- /* Helm limits the name of a release to 53 characters, so that every suffix up to "-migrate" stays within the 63 of a label. */}}
{{- define "kitfleet.name" -}}
{{ .Release.Name }}
{{- end }}

{{- /* The name of a CronJob has at most 52 characters. A digest keeps shortened names distinct. */}}
{{- define "kitfleet.deletionCostName" -}}
{{- $name := printf "%s-deletion-cost" .Release.Name }}
{{- if gt (len $name) 52 }}
{{- $name = printf "%s-%s-deletion-cost" (.Release.Name | trunc 29 | trimSuffix "-" | trimSuffix ".") (.Release.Name | sha256sum | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "kitfleet.selector" -}}
app.kubernetes.io/name: kitfleet
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "kitfleet.labels" -}}
{{ include "kitfleet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- /* Metadata of a pod. The chart's own labels win, because selectors depend on them. */}}
{{- define "kitfleet.podMetadata" -}}
labels: {{- merge (include "kitfleet.labels" . | fromYaml) .values.podLabels | toYaml | nindent 2 }}
{{- with .values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kitfleet.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{- /* Fields that every pod has. `values` are those of its component. */}}
{{- define "kitfleet.pod" -}}
# The variables of a service named kitfleet begin with the prefix of settings, and the program refuses unknown settings.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Spreads the pods of a component over nodes and zones, as far as there is room. */}}
{{- define "kitfleet.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "kitfleet.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}

{{- /* A setting as text. Helm reads every number as a float, which would print as 1.7179869184e+10; JSON does not use an exponent below 1e21. */}}
{{- define "kitfleet.setting" -}}
{{- if kindIs "string" . }}
{{- . }}
{{- else if kindIs "slice" . }}
{{- $items := list }}
{{- range . }}
{{- $items = append $items (include "kitfleet.setting" .) }}
{{- end }}
{{- toRawJson $items }}
{{- else }}
{{- toRawJson . }}
{{- end }}
{{- end }}

{{- /* Environment of a container: `defaults` of the chart, each of which `settings` replaces. A setting that is null is left out. */}}
{{- define "kitfleet.environment" -}}
{{- $values := .root.Values }}
{{- $env := dict "KITFLEET_SERVER__BASE_URL" $values.baseUrl }}
{{- with $values.trustedProxies }}
{{- $_ := set $env "KITFLEET_SERVER__TRUSTED_PROXIES" (join "," .) }}
{{- end }}
{{- range $name, $value := .defaults }}
{{- $_ := set $env $name $value }}
{{- end }}
{{- range $name, $value := $values.settings }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $env $name (include "kitfleet.setting" $value) }}
{{- end }}
{{- end }}
{{- $_ := required "baseUrl: the URL at which customers reach the service" $env.KITFLEET_SERVER__BASE_URL }}
{{- range $name, $value := $env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "kitfleet.secrets" -}}
- secretRef:
    name: {{ required "existingSecret: a secret with DATABASE_URL and MFA_ENCRYPTION_KEY" .Values.existingSecret | quote }}
{{- end }}

{{- /* Seconds that a process drains: those of KITFLEET_WORKER__DRAIN_TIMEOUT in `settings`, or else `seconds`. Grace periods depend on it. */}}
{{- define "kitfleet.drainSeconds" -}}
{{- $settings := .root.Values.settings }}
{{- $name := "KITFLEET_WORKER__DRAIN_TIMEOUT" }}
{{- if and (hasKey $settings $name) (not (kindIs "invalid" (get $settings $name))) }}
{{- $text := toString (get $settings $name) }}
{{- if not (regexMatch "^[0-9]{1,9}[smhd]$" $text) }}
{{- fail (printf "settings.%s: %q must be a whole number with one unit (s, m, h or d), such as 1800s, because terminationGracePeriodSeconds is derived from it" $name $text) }}
{{- end }}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 }}
{{- mul (regexFind "^[0-9]+" $text | atoi) (get $units (regexFind "[smhd]$" $text)) }}
{{- else }}
{{- int .seconds }}
{{- end }}
{{- end }}

{{- /* Address of the listeners. On Linux [::] accepts IPv4 as well. */}}
{{- define "kitfleet.listen" -}}
{{- if or (eq .Values.ipFamily "IPv6") (ne .Values.service.ipFamilyPolicy "SingleStack") -}}
[::]:8080
{{- else -}}
0.0.0.0:8080
{{- end }}
{{- end }}

{{- /* Security context of every pod: the user of the image. */}}
{{- define "kitfleet.unprivileged" -}}
runAsNonRoot: true
runAsUser: 7400
runAsGroup: 7400
fsGroup: 7400
{{- end }}

{{- /* Security context of every container. */}}
{{- define "kitfleet.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* `ready` is the path that answers 200 once the process has started. */}}
{{- define "kitfleet.probes" -}}
startupProbe:
  httpGet: { path: {{ .ready | quote }}, port: http }
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

{{- /* Egress rules that every pod needs: DNS and PostgreSQL. */}}
{{- define "kitfleet.egress" -}}
{{- $egress := .Values.networkPolicy.egress }}
- ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
  {{- with $egress.dns }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
- ports: [{ port: {{ int $egress.postgres.port }} }]
  {{- with $egress.postgres.to }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
- ports: [{ port: {{ int $egress.redis.port }} }]
  {{- with $egress.redis.to }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Egress rules of processes that call other services, and of browsers. */}}
{{- define "kitfleet.internet" -}}
{{- $egress := .Values.networkPolicy.egress }}
- to:
    {{- range $all := list "0.0.0.0/0" "::/0" }}
    - ipBlock:
        cidr: {{ $all | quote }}
        {{- $except := list }}
        {{- range $egress.except }}
        {{- if eq (contains ":" .) (contains ":" $all) }}
        {{- $except = append $except . }}
        {{- end }}
        {{- end }}
        {{- with $except }}
        except: {{- toYaml . | nindent 10 }}
        {{- end }}
    {{- end }}
{{- with $egress.extra }}
{{ toYaml . }}
{{- end }}
{{- end }}
