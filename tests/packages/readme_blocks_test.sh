#!/usr/bin/env bash
# Runs the blocks "Install" and "Build and test" of README.md as they stand in a bare Debian with sudo, and uses what they install:
# readme_blocks_test.sh SOURCE WORK. test.sh is left out: this is a part of it.
# shellcheck source-path=SCRIPTDIR source=clean_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/clean_root.sh"

make_root git,sudo,ca-certificates
git clone -q "file://$source" "$root/root/spmm"
for file in resolv.conf pip.conf ssl/certs/ca-certificates.crt; do # how this machine reaches Debian and pip's index
  if [[ -e /etc/$file ]]; then cp -L "/etc/$file" "$root/etc/$file"; fi
done
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90yes"

# block HEADING: the lines of the block below it.
block() { awk -v heading="## $1" '$0 == heading { found = 1 } found && /^```/ { if (n++) exit; next } n' "$source/README.md"; }
{ block "Install" && block "Build and test"; } | grep -v '^bash tools/scripts/test.sh' >"$root/root/spmm/blocks.sh"
(($(wc -l <"$root/root/spmm/blocks.sh") >= 6)) || fail "README.md has no such blocks"
inside sh -c 'cd ~/spmm && exec bash -ex blocks.sh' </dev/null >"$work/blocks.log" 2>&1 ||
  { tail -40 "$work/blocks.log" && fail "the blocks do not work; all of the log: $work/blocks.log"; }

inside sh -e -c 'cd /tmp
spmm gen -q --n 320 --m 8 --k 300 a.bin
for program in spmm ~/spmm/spmm ~/.local/bin/spmm; do $program -q --verify full a.bin a.bin c.bin; done
for python in python3 ~/spmm-env/bin/python; do $python -c "import spmm; print(spmm.__file__)"; done' || fail "what is installed does not work"
for library in libc6 libgcc-s1 libstdc++6; do
  inside dpkg-query -W -f '${Depends}\n' libspmm1 | grep -qF "$library " || fail "libspmm1 does not depend on $library"
done
# Nine names of one file.
program=$(inside stat -c %s /usr/bin/spmm) size=$(inside dpkg-query -W -f '${Installed-Size}' spmm)
((size * 1024 < program + 500000)) || fail "Installed-Size of spmm is $size kB, the program has $program bytes"
echo "the blocks work"
