# shellcheck shell=bash
# Functions that make Debian systems in directories, from the mirror that this machine's apt uses. The systems are kept in
# the target directory for the next run. Source this file after lib.sh, from the root of the repository.

systems=${CARGO_TARGET_DIR:-$PWD/target}/systems

needs_systems() {
  if [ "$(id -u)" -ne 0 ] || ! have apt-get; then die "this script needs root and apt"; fi
  have debootstrap || apt_install debootstrap
  mirror=$(debian_mirror) || die "no Debian mirror in the sources of apt"
  mkdir -p "$systems"
}

# Runs a command in a system.
in_root() { # ROOT COMMAND...
  DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$@"
}

# Makes a minimal system and prints its directory: minimal SUITE ARCHITECTURE
minimal() {
  local root=$systems/$1-$2
  if [ ! -e "$root.whole" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --arch="$2" "$1" "$root" "$mirror" >"$root.log" 2>&1 ||
      { tail -n 20 "$root.log" >&2 && return 1; }
    cp /etc/hosts /etc/resolv.conf "$root/etc" 2>/dev/null || true
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
    touch "$root.whole"
  fi
  say "$root"
}
