{{- define "kitfleet.name" -}}
{{ printf "%s" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "kitfleet.selector" -}}
app.kubernetes.io/name: kitfleet
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "kitfleet.labels" -}}
{{ include "kitfleet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "kitfleet.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{- define "kitfleet.environment" -}}
- name: KITFLEET_SERVER__BASE_URL
  value: {{ required "baseUrl: where customers find the service" .Values.baseUrl | quote }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "kitfleet.secrets" -}}
- secretRef:
    name: {{ required "existingSecret: a secret with DATABASE_URL and MFA_ENCRYPTION_KEY" .Values.existingSecret }}
{{- end }}

{{- /* What holds for every container: no user of the machine's, no right that it does not need. */}}
{{- define "kitfleet.unprivileged" -}}
runAsNonRoot: true
runAsUser: 7400
runAsGroup: 7400
fsGroup: 7400
{{- end }}

{{- define "kitfleet.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "kitfleet.probes" -}}
startupProbe:
  httpGet: { path: /readyz, port: http }
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 10
  failureThreshold: 6
{{- end }}
