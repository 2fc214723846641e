{{/* What each of these gets: root, the whole context; part: web, worker, beat or migrate. */}}

{{/* The labels that select a part's pods. They never change in a release's life. */}}
{{- define "app.selector" -}}
app.kubernetes.io/name: app
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "app.labels" -}}
{{ include "app.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: lab
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "app.metadata" -}}
name: {{ .root.Release.Name }}-{{ .part }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "app.labels" . | nindent 2 }}
{{- end }}

{{/* A pod is replaced when its template changes: so it names what it reads elsewhere. */}}
{{- define "app.podMetadata" -}}
labels:
  {{- include "app.selector" . | nindent 2 }}
{{- with .root.Values.rollout }}
annotations:
  {{- range $name, $digest := . }}
  lab.local/{{ $name }}: {{ $digest | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* What every pod has: nothing but an address, a disk that is read only, and no rights. */}}
{{- define "app.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.archs }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - key: kubernetes.io/arch
              operator: In
              values:
                {{- toYaml . | nindent 16 }}
{{- end }}
{{- end }}

{{- define "app.container" -}}
{{- $values := index .root.Values .part -}}
name: {{ .part }}
image: {{ printf "%s:%s" .root.Values.image.repository .root.Values.image.tag | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .part }}]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml $values.resources | nindent 2 }}
env:
  {{- $env := merge (dict) ($values.env | default dict) .root.Values.env }}
  {{- if $values.drainSeconds }}
  {{- $env = merge (dict "DRAIN_SECONDS" (toString $values.drainSeconds)) $env }}
  {{- end }}
  {{- range $name, $value := $env }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range $name := list "DATABASE_URL" "REDIS_URL" }}
  - name: {{ $name }}
    valueFrom:
      secretKeyRef:
        name: {{ $.root.Values.secretName }}
        key: {{ $name }}
  {{- end }}
{{- end }}

{{/* Pods of one version over the nodes, as even as there is room. */}}
{{- define "app.spread" -}}
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "app.selector" . | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}

{{/* The replicas of a part: none here where an autoscaler has the say, or each release
would set them back. */}}
{{- define "app.replicas" -}}
{{- $values := index .root.Values .part -}}
{{- if gt (int $values.minReplicas) (int $values.maxReplicas) -}}
{{- fail (printf "%s.minReplicas (%d) is above %s.maxReplicas (%d)" .part (int $values.minReplicas) .part (int $values.maxReplicas)) -}}
{{- end -}}
{{- if eq (int $values.minReplicas) (int $values.maxReplicas) -}}
replicas: {{ $values.minReplicas }}
{{- end }}
{{- end }}

{{- define "app.autoscaler" -}}
{{- $values := index .root.Values .part -}}
{{- if lt (int $values.minReplicas) (int $values.maxReplicas) -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "app.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ .root.Release.Name }}-{{ .part }}
  minReplicas: {{ $values.minReplicas }}
  maxReplicas: {{ $values.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ $values.targetCPUPercent }}
  behavior:
    scaleUp: # a load test does not wait
      stabilizationWindowSeconds: 0
      policies:
        - {type: Percent, value: 100, periodSeconds: 15}
        - {type: Pods, value: 2, periodSeconds: 15}
    scaleDown:
      stabilizationWindowSeconds: 60
{{- end }}
{{- end }}

{{- define "app.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "app.metadata" . | nindent 2 }}
spec:
  # Not a least number: of one pod, that would hold a node's drain up for ever.
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "app.selector" . | nindent 6 }}
{{- end }}
