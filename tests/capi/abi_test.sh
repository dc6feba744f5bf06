#!/usr/bin/env bash
# Compares spmm.h with the stored declarations of the C interface, spmm.abi: abi_test.sh [HEADER].
# abi_test.sh --write [HEADER] stores new ones: after additions, or under a new SPMM_C_SOVERSION.
# That libspmm.so has these functions, capi_symbols_test checks, and the compiler that they have these arguments.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
write=false
if [[ ${1:-} == --write ]]; then write=true && shift; fi
stored=$here/spmm.abi header=${1:-$here/../../include/spmm/spmm.h}
new=$(mktemp)
trap 'rm -f "$new"' EXIT

# The header without comments and without what it includes.
{
  grep '^#define SPMM_C_SOVERSION' "$header"
  sed -E '/^#(include|define SPMM_API)/d' "$header" | cc -E -P -
} >"$new"

# A line for each declaration, structs and lists of names without their ends: they may grow there (of structs of options,
# struct_size says how much the caller knows).
flat() { awk '/\{$/ { inside = 1 } /^\}/ { inside = 0; print ""; next } { printf "%s%s", $0, inside ? " " : "\n" }' "$1" | sed 's/ *$//'; }
lost=$(awk 'NR == FNR { new[n++] = $0; next }
  { for (i = 0; i < n; i++) if (index(new[i], $0) == 1) next; print }' <(flat "$new") <(flat "$stored"))
if [[ -n $lost && $lost != '#define SPMM_C_SOVERSION '* ]]; then
  printf 'not in %s any more:\n%s\nprograms that use this break: raise SPMM_C_SOVERSION, or take the change back (a name alone: change it in %s, too)\n' \
    "${header##*/}" "$lost" "$stored"
  exit 1
fi
if [[ $write == true ]]; then
  cp "$new" "$stored"
elif ! diff "$stored" "$new"; then
  echo "there are additions, or there is a new SPMM_C_SOVERSION: bash tests/capi/abi_test.sh --write"
  exit 1
fi
