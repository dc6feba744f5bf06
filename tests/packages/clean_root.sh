# shellcheck shell=bash
# A clean Debian in a folder (sourced): packages_test.sh and readme_blocks_test.sh SOURCE WORK. Skipped (77) without git, mmdebstrap,
# the rights of root or a mirror of Debian.
set -euo pipefail
skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "${0##*/}: $*"
  exit 1
}
source=$(cd "$1" && pwd) work=$2
for program in git mmdebstrap chroot; do
  command -v "$program" >/dev/null || skip "$program is missing (Debian: git mmdebstrap)"
done
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || skip "$source is no checkout"
[[ $(id -u) == 0 ]] || skip "a clean root needs the rights of root"
mkdir -p "$work"
work=$(cd "$work" && pwd) root=$work/root

# make_root PACKAGE,...: in $root, until the script ends.
make_root() {
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  rm -rf "$root"
  trap 'rm -rf "$root"' EXIT
  mmdebstrap --quiet --mode=root --variant=minbase --include="$1" "$codename" "$root" || skip "mmdebstrap makes no root here"
  [[ ! -e $root/usr/bin/gcc && ! -e $root/usr/bin/cmake ]] || fail "the root has a compiler"
}

# inside COMMAND...: in the root; /proc is mounted for the one command, in mounts of its own.
inside() {
  # shellcheck disable=SC2016
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
