#!/bin/bash
# k6 of the pinned version, from a copied file or a download. Its sum is checked
# before anything is replaced; a .tar.gz holds it at any depth.
# in: binary version sha256 url copied
set -euo pipefail

mark=${binary:?}.sha256 # the sum of what it was installed from
is_pinned() { [ "$(timeout 20 "$1" version 2>/dev/null | awk 'NR == 1 { print $1, $2 }')" = "k6 ${version:?}" ]; }

install_k6() {
  mkdir -p "$(dirname "$binary")"
  work=$(mktemp -d "$(dirname "$binary")/.lab-k6.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  fetch "${copied?}" "${url?}" "$work/fetched"
  check_sum "$work/fetched" "${sha256:?}" "k6 from ${url:-the given file}" loadtest.k6.sha256
  if [ "$(head -c 2 "$work/fetched" | od -An -tx1 | tr -d ' ')" = 1f8b ]; then
    mkdir "$work/all"
    tar -xzf "$work/fetched" -C "$work/all" --no-same-owner
    find "$work/all" -type f -name k6 -exec mv {} "$work/k6" \;
  else
    mv "$work/fetched" "$work/k6"
  fi
  [ -f "$work/k6" ] || {
    log "the archive of k6 holds no file k6: nothing was replaced"
    return 1
  }
  chmod 755 "$work/k6"
  is_pinned "$work/k6" || {
    log "the file is not k6 $version for this machine: $("$work/k6" version 2>&1 | head -c 200 | head -n 1): nothing was replaced"
    return 1
  }
  rm -f "$mark"
  mv -f "$work/k6" "$binary"
  printf '%s\n' "$sha256" >"$mark"
}

if [ -e "$mark" ] && [ "$(cat "$mark")" = "${sha256:?}" ] && is_pinned "$binary"; then
  log "k6 $version is there"
else
  install_k6
fi

# ready: as the runner asks it
is_pinned "$binary" || {
  log "$binary is not k6 $version"
  exit 1
}
