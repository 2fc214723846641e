#!/bin/bash
# The demo workload's image on a node of a cluster: imported now, and at every start
# of the node from the folder that it imports.
# in: archive distribution reference
set -euo pipefail

case ${distribution:?} in
  k3s)
    folder=/var/lib/rancher/k3s/agent/images
    import=(k3s ctr images import)
    list=(k3s ctr images list --quiet)
    ;;
  labkube)
    folder=/var/lib/labkube/agent/images
    import=(labkube import)
    list=("$(dirname "$(readlink -f "$(command -v labkube)")")/ctr" --address /run/labkube/containerd/containerd.sock --namespace k8s.io images list --quiet)
    ;;
  *)
    log "no distribution $distribution: want k3s or labkube"
    exit 1
    ;;
esac

# Whole or not at all, as the node may be reading the folder: it takes what ends in .tar.
install -d -m 755 "$folder"
cmp -s "${archive:?}" "$folder/lab-app.tar" || {
  install -m 644 "$archive" "$folder/.lab-app.new"
  mv -f "$folder/.lab-app.new" "$folder/lab-app.tar"
}
"${import[@]}" "$folder/lab-app.tar" >&2

# ready: the node knows the image by the name that pods ask for
has_image() { "${list[@]}" | grep -xF "$1"; } # not -q, which would end the list early
wait_for 60 "the image ${reference:?}" has_image "$reference"
log "has $reference"
