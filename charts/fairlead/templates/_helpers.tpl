{{- /* Gives settings that are missing their defaults: `helm upgrade --reuse-values` takes an earlier chart's values for this one's, and leaves out
     what that chart lacked. A list or map that is missing from a section that exists was removed on purpose, by `null`. */ -}}
{{- define "fairlead.defaults" -}}
{{- $values := .Values }}
{{- $made := dict }}
{{- range $name, $default := .Files.Get "files/defaults.yaml" | fromYaml }}
  {{- $section := $values }}
  {{- $path := "" }}
  {{- range initial (splitList "." $name) }}
    {{- $path = printf "%s.%s" $path . }}
    {{- if not (kindIs "map" (get $section .)) }}
      {{- $_ := set $section . dict }}
      {{- $_ := set $made $path true }}
    {{- end }}
    {{- $section = get $section . }}
  {{- end }}
  {{- $key := splitList "." $name | last }}
  {{- $isSingle := not (or (kindIs "map" $default) (kindIs "slice" $default) (kindIs "invalid" $default)) }}
  {{- if and (not (hasKey $section $key)) (or $isSingle (hasKey $made $path)) }}
    {{- $_ := set $section $key $default }}
  {{- end }}
{{- end }}
{{- end }}

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

{{- define "fairlead.agentSelectorLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node-agent
{{- end }}

{{- define "fairlead.agentLabels" -}}
{{ include "fairlead.agentSelectorLabels" . }}
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- /* Whether what has these annotations is this release's: (dict "root" $ "annotations" MAP). */ -}}
{{- define "fairlead.isOwned" -}}
{{- if and (eq (get .annotations "meta.helm.sh/release-name") .root.Release.Name) (eq (get .annotations "meta.helm.sh/release-namespace") .root.Release.Namespace) }}true{{ end }}
{{- end }}

{{- /* Refuses a second release: its policies would take the first one's operator for anybody. */ -}}
{{- define "fairlead.onlyRelease" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "").items }}
{{- $annotations := .metadata.annotations | default dict }}
{{- $ours := eq (dig "labels" "app.kubernetes.io/part-of" "" .metadata) "fairlead" }}
{{- if and $ours (get $annotations "meta.helm.sh/release-name") (not (include "fairlead.isOwned" (dict "root" $ "annotations" $annotations))) }}
{{- fail (printf "a cluster has one release of Fairlead, and this one has release %s in namespace %s: upgrade that one, or uninstall it first (ValidatingAdmissionPolicy %s is its)" (get $annotations "meta.helm.sh/release-name") (get $annotations "meta.helm.sh/release-namespace") .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selectorLabels" . }}
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- define "fairlead.guardLabels" -}}
{{ include "fairlead.guardSelectorLabels" . }}
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- /* Definitions belong to no component. */ -}}
{{- define "fairlead.crdLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) }}
{{- end }}
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

{{- /* The value identities for CEL, as a map by namespace ("" for all others) of maps of lists of [first, last]. 65532 is among the users and the
     groups of `jobs` where a default replaces it: (dict "root" $ "jobs" true). */ -}}
{{- define "fairlead.identities" -}}
{{- $all := dict }}
{{- $rules := .root.Values.identities }}
{{- $jobs := .jobs }}
{{- range $namespace, $own := merge (dict "" (dict)) ($rules.namespaces | default dict) }}
  {{- $merged := dict }}
  {{- range $kind, $name := dict "users" "defaultUser" "groups" "defaultGroup" "fsGroups" "" }}
    {{- $texts := index $rules.default $kind }}
    {{- if hasKey $own $kind }}{{ $texts = index $own $kind }}{{ end }}
    {{- $ranges := list }}
    {{- range $text := $texts }}
      {{- $ends := splitList "-" (ternary $text (int64 $text | toString) (kindIs "string" $text)) }}
      {{- $ranges = append $ranges (list (first $ends | int64) (last $ends | int64)) }}
      {{- if and (eq $kind "users") (eq (first $ends | int64) 0) }}
        {{- fail (printf "identities: users %s of namespace %q: movers never run as root, so 0 cannot be allowed" $text $namespace) }}
      {{- end }}
      {{- if gt (first $ends | int64) (last $ends | int64) }}
        {{- fail (printf "identities: %s %s of namespace %q must rise" $kind $text $namespace) }}
      {{- end }}
    {{- end }}
    {{- $default := index $own $name | default (index $rules.default $name) }}
    {{- if and $name $default }}
      {{- $inside := false }}
      {{- range $ranges }}{{ if and (ge (int64 $default) (first .)) (le (int64 $default) (last .)) }}{{ $inside = true }}{{ end }}{{ end }}
      {{- if not $inside }}
        {{- fail (printf "identities: %s %v of namespace %q is none of %s" $name (int64 $default) $namespace (join ", " $texts)) }}
      {{- end }}
      {{- if $jobs }}{{ $ranges = append $ranges (list 65532 65532) }}{{ end }}
    {{- end }}
    {{- $_ := set $merged $kind $ranges }}
  {{- end }}
  {{- $_ := set $all $namespace $merged }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{- /* CEL: what is said of an ID that is not allowed: (dict "kind" "users" "subject" CEL). */ -}}
{{- define "fairlead.identityMessage" -}}
{{ .subject }} + variables.allowed['{{ .kind }}'].map(r, string(r[0]) + (r[0] == r[1] ? '' : '-' + string(r[1]))).join(', ') + ' in namespace ' + request.namespace + ': use an allowed ID, or ask an administrator to widen the chart value identities'
{{- end }}

{{- /* The operator's rights in one namespace, or in all: (dict "root" $ "kind" "RoleBinding" "namespace" NAMESPACE "name" ROLE). */ -}}
{{- define "fairlead.tenantBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "fairlead.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "fairlead.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* The priority class of a part, if any: (dict "root" $ "part" "operator" "name" VALUE). */ -}}
{{- define "fairlead.priorityClass" -}}
{{- $made := and .root.Values.priorityClasses.create (not (kindIs "invalid" (index .root.Values.priorityClasses .part))) }}
{{- default (ternary (printf "%s-%s" (include "fairlead.fullname" .root) .part) "" $made) .name }}
{{- end }}

{{- /* The priority classes for the chart's own pods, and the namespaces of these, as lists in JSON. */ -}}
{{- define "fairlead.ownPriorityClasses" -}}
{{- list (printf "%s-operator" (include "fairlead.fullname" .)) (printf "%s-guard" (include "fairlead.fullname" .)) | toJson }}
{{- end }}

{{- define "fairlead.ownNamespaces" -}}
{{- concat (list .Release.Namespace) (ternary (list (include "fairlead.guardNamespace" .)) list (or .Values.nodeGuard.enabled .Values.nodeAgent.enabled)) | uniq | toJson }}
{{- end }}

{{- /* What runs on the nodes' network has a namespace of its own, since it needs the Pod Security level privileged: the guard and the node agent. */ -}}
{{- define "fairlead.guardNamespace" -}}
{{- default (printf "%s-guard" .Release.Namespace) .Values.nodeGuard.namespace.name }}
{{- end }}

{{- define "fairlead.guardNamespaceObject" -}}
{{- $namespace := include "fairlead.guardNamespace" . }}
{{- if and .Values.nodeGuard.namespace.create (ne $namespace .Release.Namespace) }}
apiVersion: v1
kind: Namespace
metadata:
  name: {{ $namespace }}
  labels:
    {{- include "fairlead.guardLabels" . | nindent 4 }}
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/warn: privileged
  # A namespace takes its time to go, and what runs there could not be turned on again meanwhile.
  annotations: {helm.sh/resource-policy: keep}
---
{{- end }}
{{- end }}

{{- define "fairlead.agentName" -}}
{{- printf "%s-node-agent" (include "fairlead.fullname" .) }}
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

{{- define "fairlead.uninstallLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: uninstall
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- /* Annotations of what exists while the release is being uninstalled; the argument is the weight. */ -}}
{{- define "fairlead.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* What the pods of Helm's hooks have in common: they run where the operator runs, with as little. */ -}}
{{- define "fairlead.hookPod" -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fairlead.hookContainer" -}}
image: {{ include "fairlead.image" (dict "root" . "image" .Values.images.operator) | quote }}
imagePullPolicy: {{ .Values.images.operator.pullPolicy }}
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {memory: 256Mi}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
{{- end }}

{{- define "fairlead.testLabels" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{ include "fairlead.commonLabels" . }}
{{- end }}

{{- define "fairlead.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "fairlead.testNamespace" -}}
{{- coalesce .Values.test.namespace (first (concat (without .Values.hostNetwork.namespaces "*") (.Values.tenantNamespaces | default list) (list .Release.Namespace))) }}
{{- end }}
