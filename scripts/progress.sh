#!/usr/bin/env bash
# What the scripts that build Go programs share; they source it and set progress, with
# which every line on standard error begins.

say() { echo "${progress:?}: $*" >&2; }

# go_build NAME FILE PACKAGE [LDFLAGS]: quick when nothing changed.
go_build() {
  local began=$SECONDS
  [ -e "$2" ] || say "building $1 …"
  go build -v -trimpath -ldflags "-s -w ${4:-}" -o "$2" "$3" 2> >(counted "$progress: $1" >&2)
  if [ $((SECONDS - began)) -ge 10 ]; then
    say "built $1 in $((SECONDS - began)) s"
  fi
}

# counted LABEL: of what `go build -v` says, a line for 200 packages; the rest as it is.
counted() {
  awk -v label="$1" '
    /^[^ #:]+$/ { if (++n % 200 == 0) print label ": " n " packages compiled"; fflush(); next }
    /^go: downloading / { if (++d % 100 == 0) print label ": " d " modules downloaded"; fflush(); next }
    { print; fflush() }'
}
