#!/usr/bin/env bash
# Compares spmm.h with the stored description of the C interface, libspmm.abi: abi_test.sh [HEADER]. Skipped (77) without libabigail.
# abi_test.sh --write [HEADER] stores a new description: after additions, or under a new SPMM_C_SOVERSION.
# That libspmm.so has these functions, capi_symbols_test checks, and the compiler that they have these arguments. Enumerators, which
# no argument has as its type, are not described.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
write=false
if [[ ${1:-} == --write ]]; then write=true && shift; fi
stored=$here/libspmm.abi header=${1:-$here/../../include/spmm/spmm.h}
for program in abidw abidiff gcc; do
  command -v "$program" >/dev/null || { echo "skipped: $program is missing (Debian: abigail-tools gcc)"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A library of the functions of the header, in C: without the types inside of ours, which nobody sees.
soversion=$(sed -n 's/^#define SPMM_C_SOVERSION //p' "$header")
sed -zE 's/(SPMM_API [^;]*\));/\1 { __builtin_trap(); }/g' "$header" >"$work/spmm.c"
gcc -w -g -shared -fPIC "-Wl,-soname,libspmm.so.$soversion" -o "$work/libspmm.so" "$work/spmm.c"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-architecture --type-id-style hash \
  --out-file "$work/new.abi" "$work/libspmm.so"

soname() { sed -n "1s/.*soname='\([^']*\)'.*/\1/p" "$1"; }
# Structs of options grow at their end: struct_size says how much of one the caller knows.
printf '%s\n' '[suppress_type]' 'type_kind = struct' 'has_data_member_inserted_at = end' >"$work/grown"
if [[ -e $stored && $(soname "$stored") == "$(soname "$work/new.abi")" ]] &&
  ! abidiff --suppressions "$work/grown" --no-added-syms "$stored" "$work/new.abi"; then
  echo "programs that use this break: raise SPMM_C_SOVERSION in ${header##*/}, or take the change back"
  exit 1
fi
if [[ $write == true ]]; then
  cp "$work/new.abi" "$stored"
elif ! abidiff "$stored" "$work/new.abi"; then
  echo "there are additions, or there is a new SPMM_C_SOVERSION: bash tests/capi/abi_test.sh --write"
  exit 1
fi
