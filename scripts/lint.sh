#!/usr/bin/env bash
# Formatting and static checks over every file of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t go < <(git ls-files '*.go')
unformatted=$(gofmt -l "${go[@]}")
[ -z "$unformatted" ] || {
  echo "not gofmt'ed: $unformatted" >&2
  exit 1
}
lint=$PWD/tools/lint/go.mod
for module in . tools/pulumi tools/bench tools/chart tools/labkube; do
  (cd "$module" && go mod tidy -diff && go vet -tags walls ./... && go tool -modfile="$lint" staticcheck -tags walls ./...)
done
# As the plugin is built, so that nothing of it is compiled twice; without staticcheck,
# which would look through all of Kubernetes for the few lines that are ours.
(cd tools/pulumi-kubernetes && go mod tidy -diff && go vet -trimpath ./...)
for module in containerd coredns metrics-server; do # programs of others: nothing of ours to check
  (cd "tools/labkube/$module" && go mod tidy -diff)
done
# Pulumi writes the salt of this folder's passphrase into the stack's file; in a
# clone, which has another passphrase, no stack could be selected.
if git grep -n encryptionsalt HEAD -- 'Pulumi.*.yaml'; then
  echo "remove the salt from the commit: git checkout -p" >&2
  exit 1
fi
mapfile -t shell < <(git ls-files '*.sh' bin .ci)
shellcheck --shell=bash "${shell[@]}"
