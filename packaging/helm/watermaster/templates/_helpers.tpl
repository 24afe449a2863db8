{{- define "watermaster.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "watermaster.controller" }}{{ include "watermaster.fullname" . }}-controller{{ end }}

{{- define "watermaster.agent" }}{{ include "watermaster.fullname" . }}-agent{{ end }}

{{- /* Labels that select, of (list ROOT PART). */}}
{{- define "watermaster.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "watermaster.labels" -}}
{{ include "watermaster.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "watermaster.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.image.registry }}/watermaster-{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- /* Names end here: where controllers are found, and what their certificate must name. */}}
{{- define "watermaster.domain" }}{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{ end }}

{{- define "watermaster.pod" -}}
{{- $root := index . 0 -}}
{{ $controller := include "watermaster.controller" $root -}}
{{ $controller }}-{{ index . 1 }}.{{ $controller }}s.{{ include "watermaster.domain" $root }}
{{- end }}

{{- /* The addresses of controllers as members of a list of TOML. */}}
{{- define "watermaster.controllers" -}}
{{- $all := .Values.agent.controllers -}}
{{- if not $all -}}
{{- if gt (int .Values.controller.replicas) 1 -}}
{{- range $at := until (int .Values.controller.replicas) -}}
{{- $all = append $all (printf "https://%s:7443" (include "watermaster.pod" (list $ $at))) -}}
{{- end -}}
{{- else -}}
{{- $all = list (printf "https://%s.%s:7443" (include "watermaster.controller" .) (include "watermaster.domain" .)) -}}
{{- end -}}
{{- end -}}
{{- range $at, $address := $all }}{{ if $at }}, {{ end }}{{ $address | quote }}{{ end -}}
{{- end }}

{{- /* The configuration of the controller (list ROOT NUMBER). */}}
{{- define "watermaster.config" -}}
{{- $root := index . 0 -}}
{{- $at := index . 1 -}}
{{- $name := include "watermaster.controller" $root -}}
{{- $values := $root.Values.controller -}}
{{- $election := $root.Values.election -}}
state = "/var/lib/watermaster"
log = { format = {{ $root.Values.log.format | quote }}, level = {{ $root.Values.log.level | quote }} }
{{ $values.config }}

[listen]
http = "{{ $values.listen }}:7443"
{{- if $values.openflow.enabled }}
openflow_tls = "{{ $values.listen }}:6654"
{{- end }}

[tls]
ca = "/etc/watermaster/certs/ca.crt"
certificate = "/etc/watermaster/certs/tls.crt"
key = "/etc/watermaster/certs/tls.key"
{{- if $values.tls.crl }}
crl = "/etc/watermaster/certs/ca.crl"
{{- end }}

[election]
name = "{{ $name }}-{{ $at }}"
address = "https://{{ include "watermaster.pod" (list $root $at) }}:7443"
lease = {{ $election.lease | default (ternary "2 s" "5 s" (not (empty $election.etcd))) | quote }}
{{- if $election.etcd }}
etcd = [{{ range $member, $address := $election.etcd }}{{ if $member }}, {{ end }}{{ $address | quote }}{{ end }}]
prefix = {{ $election.prefix | quote }}
{{- else }}

[election.kubernetes]
name = {{ $name | quote }}
{{- end }}
{{- if $election.tls.secret }}

[election.tls]
ca = "/etc/watermaster/etcd/ca.crt"
certificate = "/etc/watermaster/etcd/tls.crt"
key = "/etc/watermaster/etcd/tls.key"
{{- end }}
{{- end }}

{{- /* What of such a configuration only a restart changes: all but the tables and keys that a reload takes, as
docs/operating.md#controller lists them. What is written otherwise, as in one line of the root, counts too. */}}
{{- define "watermaster.restarts" -}}
{{- range $table := splitList "\n[" (regexReplaceAll "(?m)^[ \\t]+" . "") -}}
{{- if not (regexMatch "^\\[?(policy|limits|tenant|tls)\\b" $table) -}}
{{- $taken := ternary "lease" "agent" (hasPrefix "control]" $table) -}}
{{- $left := regexReplaceAll (printf "(?m)^%s[ \\t]*=.*$" $taken) $table "" -}}
{{- $left = regexReplaceAll "\\s+" $left " " | trim -}}
{{- if ne $left "control]" }}[{{ $left }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "watermaster.check" -}}
{{- if and .Values.controller.enabled (regexMatch "(?m)^\\s*(\\[\\s*(listen|tls|election|log)\\b|(state|log|listen|tls|election)\\b[\\s.\\w]*=)" .Values.controller.config) -}}
{{- fail "controller.config: state, log, [listen], [tls] and [election] are the chart's; remove them, other values set them" -}}
{{- end -}}
{{- if and (not .Values.election.etcd) .Values.election.tls.secret -}}
{{- fail "election.tls.secret: it is for etcd; name its members in election.etcd, or leave it out" -}}
{{- end -}}
{{- if and (contains "https://" (join " " .Values.election.etcd)) (not .Values.election.tls.secret) -}}
{{- fail "election.tls.secret: members of etcd with https need certificates; name the secret with ca.crt, tls.crt and tls.key" -}}
{{- end -}}
{{- if and .Values.agent.enabled (not .Values.controller.enabled) (not .Values.agent.controllers) -}}
{{- fail "agent.controllers: the chart runs no controller; name those that agents connect to" -}}
{{- end -}}
{{- if and .Values.agent.enabled (not .Values.agent.tls.secret) (not .Values.agent.tls.hostPath) -}}
{{- fail "agent.tls: agents need certificates; name a secret, or a hostPath" -}}
{{- end -}}
{{- if regexMatch "(?m)^\\s*(\\[|(name|controller|log|pins|tls|kubernetes|host|interface)\\b[\\s.\\w]*=)" .Values.agent.config -}}
{{- fail "agent.config: keys without a table alone; name, controller, log, pins, [tls] and [kubernetes] are the chart's, hosts and interfaces stand in agent.nodes" -}}
{{- end -}}
{{- end }}
