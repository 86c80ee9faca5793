{{/* Names and labels. */}}
{{- define "memtend.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "memtend.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "memtend.labels" -}}
{{ include "memtend.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "memtend.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The queues of a worker group, as a pattern of Prometheus. A test compares them with the groups of the code. */}}
{{- define "memtend.queues" -}}
{{- get (dict
  "store" "memory[.](store([.]([0-9]|bulk))?|distill)"
  "maintenance" "memory[.](maintenance|control|skills|reindex)"
  "llm" "memory[.](synthesis|extract)"
  "finetune" "memory[.]finetune"
) . }}
{{- end }}

{{/* As in compose.yml: a fixed user, nothing to write to but /tmp and the heartbeats, no capability. */}}
{{- define "memtend.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "memtend.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "memtend.env" -}}
- { name: MEMTEND_HOME, value: /var/lib/memtend }
{{- $variables := dict
  "broker" "BROKER_URL" "results" "RESULT_URL"
  "database" "DATABASE_URL" "journal" "JOURNAL_URL" "history" "HISTORY_URL"
  "qdrant" "QDRANT_URL" "qdrantApiKey" "QDRANT_API_KEY"
  "llmApiKey" "LLM_API_KEY" "embedderApiKey" "EMBEDDER_API_KEY"
  "approvalsWebhook" "APPROVALS_WEBHOOK" "flower" "FLOWER_URL" }}
{{- range $name, $from := .Values.connections }}
{{- if $from.secret }}
- name: MEMTEND_{{ get $variables $name }}
  valueFrom: { secretKeyRef: { name: {{ $from.secret | quote }}, key: {{ $from.key | quote }} } }
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}

{{/* What every pod has; `migrate` runs before the chart's own objects exist, so nothing here names one. */}}
{{- define "memtend.podBase" -}}
automountServiceAccountToken: false
# A service called memtend would add variables such as MEMTEND_PORT, which are no settings.
enableServiceLinks: false
securityContext: {{- include "memtend.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
