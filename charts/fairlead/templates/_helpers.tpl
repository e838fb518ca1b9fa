{{- define "fairlead.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fairlead.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "fairlead.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fairlead.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "fairlead.guardSelectorLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: guard
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selectorLabels" . }}
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- define "fairlead.guardLabels" -}}
{{ include "fairlead.guardSelectorLabels" . }}
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- define "fairlead.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fairlead
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "fairlead.serviceAccountName" -}}
{{- default (ternary (include "fairlead.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- /* The reference of an image: (dict "root" $ "image" .Values.images.mover). */ -}}
{{- define "fairlead.image" -}}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) }}
{{- end }}

{{- /* CEL: whether a request comes from the operator's own account. */ -}}
{{- define "fairlead.cel.isOperator" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "fairlead.serviceAccountName" . }}'
{{- end }}

{{- /* CEL: whether an administrator named the requester as trusted. */ -}}
{{- define "fairlead.cel.isTrusted" -}}
request.userInfo.username in {{ .Values.admissionPolicy.trustedUsers | toJson }} || request.userInfo.groups.exists(g, g in {{ .Values.admissionPolicy.trustedGroups | toJson }})
{{- end }}

{{- /* CEL: whether the pod named by the argument is marked as a mover, by label, by owner or by name. */ -}}
{{- define "fairlead.cel.isMover" -}}
({{ . }}.metadata.?labels['app.kubernetes.io/managed-by'].orValue('') == 'fairlead-operator' || {{ . }}.metadata.?labels['fairlead.io/transferjob-uid'].hasValue() || {{ . }}.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'TransferJob' && o.apiVersion.startsWith('fairlead.io/')) || {{ . }}.metadata.?name.orValue('').matches('{{ include "fairlead.moverName" . }}$'))
{{- end }}

{{- /* The ends of the names of mover pods and of their credentials, as regular expressions. */ -}}
{{- define "fairlead.moverName" -}}
-[0-9a-f]{8}-(sender|receiver|cleaner)-[0-9]+
{{- end }}

{{- define "fairlead.credentialsName" -}}
-[0-9a-f]{8}-credentials-[0-9]+
{{- end }}

{{- /* A binding that denies: (dict "root" $ "name" NAME). */ -}}
{{- define "fairlead.admissionBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "fairlead.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

{{- /* CEL: whether the SELinux options of what the argument names are those of the Pod Security level baseline. */ -}}
{{- define "fairlead.cel.seLinux" -}}
{{ . }}.?securityContext.?seLinuxOptions.?type.orValue('') in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'] && {{ . }}.?securityContext.?seLinuxOptions.?user.orValue('') == '' && {{ . }}.?securityContext.?seLinuxOptions.?role.orValue('') == ''
{{- end }}
