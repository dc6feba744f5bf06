# find_python PACKAGE...: sets python to the first one that has the packages; without one ends with 77 (skipped) and the reasons.
# shellcheck shell=bash
find_python() {
  local candidate line
  for candidate in python3 /usr/bin/python3; do
    if line=$("$candidate" "$(dirname "${BASH_SOURCE[0]}")/packages.py" "$@" 2>/dev/null); then
      # shellcheck disable=SC2034  # of the script that calls
      python=$candidate
      echo "$candidate with $line"
      return
    fi
    echo "$candidate: ${line:-is missing}"
  done
  echo "skipped: no python3 with $* (Debian: python3-numpy python3-scipy)"
  exit 77
}
