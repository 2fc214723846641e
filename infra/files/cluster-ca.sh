#!/bin/bash
# On the first server: the SHA-256 of the cluster's CA, the only thing printed. With
# it all others check whom they join.
set -euo pipefail

token=${data:?}/server/node-token
wait_for 60 "$token" test -s "$token"
hash=$(sed -n 's/^K10\([0-9a-f]\{64\}\)::.*/\1/p' "$token")
[ -n "$hash" ] || {
  log "$token holds no whole token"
  exit 1
}
echo "$hash"
