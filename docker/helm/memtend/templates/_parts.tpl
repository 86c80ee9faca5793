{{/*
Every part that runs for long, as a JSON list: name, values, args, heartbeat, grace (seconds), image, and whether KEDA
scales it.
*/}}
{{- define "memtend.parts" -}}
{{- $values := .Values }}
{{- $parts := list }}
{{- with $values.serve }}
{{- if .enabled }}
{{- $args := list "serve" "--host" "0.0.0.0" "--port" "8321" "--rate" (toString .rate) "--burst" (.burst | int | toString) }}
{{- $parts = append $parts (dict "name" "serve" "values" . "args" $args "grace" 30 "scaled" false) }}
{{- end }}
{{- end }}
{{- range $name, $group := $values.workers }}
{{- if $group.enabled }}
{{- $option := eq $name "maintenance" | ternary "night" $name }}
{{- $part := dict "name" (printf "worker-%s" $name) "values" $group "args" (list "worker" "--group" $option) }}
{{- $_ := set $part "heartbeat" (printf "worker-%s" $option) }}
{{- $_ := set $part "grace" 45 }}
{{- $_ := set $part "scaled" $values.keda.enabled }}
{{- if eq $name "finetune" }}
{{- if not $group.image }}{{ fail "workers.finetune.image: name an image with the extras worker, postgres and finetune" }}{{ end }}
{{- if not $values.checkpoints.existingClaim }}{{ fail "checkpoints.existingClaim: fine-tuning keeps its checkpoints there" }}{{ end }}
{{- $_ := set $part "image" $group.image }}
{{- end }}
{{- $parts = append $parts $part }}
{{- end }}
{{- end }}
{{- $beat := dict "name" "beat" "values" $values.beat "args" (list "beat") "heartbeat" "beat" "grace" 45 "scaled" false }}
{{- append $parts $beat | toJson }}
{{- end }}
