# shellcheck shell=bash
# Debian's sources, for scripts that make roots of a release. Sourced by ops/bare and ops/images.

# sources_of CODENAME: the sources of Debian that this machine uses, for the release of this name.
sources_of() {
  local here file
  here=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if [ -e "$file" ] && grep -Eq "(^Suites:| )[^#]*\b$here\b.*" "$file" && grep -q debian "$file"; then
      sed "s/\b$here\b/$1/g" "$file"
      printf '\n'
    fi
  done
}

# debian_root SCRATCH CODENAME ROOT OPTION…: makes a minimal root of a release with mmdebstrap, in a folder or a .tar file. The sources and the
# settings of APT stay in SCRATCH.
debian_root() {
  local scratch=$1 codename=$2 root=$3
  shift 3
  command -v mmdebstrap >/dev/null || apt-get install -y -q --no-install-recommends mmdebstrap
  apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries|ForceIPv)' >"$scratch/apt.conf" || true
  sources_of "$codename" >"$scratch/sources"
  if [ ! -s "$scratch/sources" ]; then
    printf 'this machine has no Debian sources to make a root from\n' >&2
    return 1
  fi
  mmdebstrap --mode=root --variant=minbase --aptopt="$scratch/apt.conf" "$@" "$codename" "$root" - <"$scratch/sources"
}
