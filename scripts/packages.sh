# shellcheck shell=bash disable=SC2154
# Functions of scripts/dist: they add documents, manual pages and completions to the binaries and build the Debian and RPM
# packages.

# The files and directories of the documentation. No page links to a file outside them.
DOCUMENTS=(README.md LICENSE SECURITY.md CONTRIBUTING.md redis.conf.example docs examples findings)

maintainer=$(sed -n 's/^authors = \["\(.*\)"\]$/\1/p' Cargo.toml)
summary=$(sed -n 's/^description = "\(.*\)"$/\1/p' Cargo.toml)

# Copies the documents to a directory. Files that git does not track are left out: documents DIRECTORY
documents() {
  { git ls-files -- "${DOCUMENTS[@]}" 2>/dev/null || find "${DOCUMENTS[@]}" -type f; } | tar -cf - -T - | tar -C "$1" -xf -
  chmod -R u=rwX,go=rX "$1"
}

# Writes everbloom(1) and the completions with the tool, and everbloom(7) from docs/commands.md: manuals TOOL DIRECTORY
# The lines of everbloom(7) are not justified, because groff cannot do it in narrow columns of tables.
manuals() {
  local shell pandoc
  pandoc=$(echo "$tools"/python/lib/python3*/site-packages/pypandoc/files/pandoc)
  mkdir -p "$2/man" "$2/completions"
  "$1" man >"$2/man/everbloom.1"
  {
    printf '## NAME\n\neverbloom - commands of the Bloom filter module for Redis and Valkey\n\n## DESCRIPTION\n'
    sed 1d docs/commands.md
    printf '\n## SEE ALSO\n\neverbloom(1), docs/ in the documentation of the package\n'
  } | "$pandoc" --from gfm --to man --standalone --shift-heading-level-by=-1 --lua-filter packaging/man.lua \
    -M title=EVERBLOOM -V section=7 -V adjusting=l -V header="Commands of everbloom" -V footer="everbloom $version" \
    -V date="$(date -d "@$SOURCE_DATE_EPOCH" +%F)" >"$2/man/everbloom.7"
  grep -qF '(docs/monitoring.md)' "$2/man/everbloom.7" || die "everbloom.7 does not name the pages of its links"
  for shell in bash zsh fish; do "$1" completions "$shell" >"$2/completions/everbloom.$shell"; done
}

# Copies the files of STAGE to the paths that a distribution uses, below ROOT: place STAGE ROOT LIBRARIES ZSH
place() {
  local stage=$1 root=$2 share=$2/usr/share module=/$3/redis/modules/everbloom.so page
  # Servers refuse a module that is not executable.
  install -D -m 755 "$stage/everbloom.so" "$root$module"
  mkdir -p "$root/$3/valkey/modules" "$root/etc/everbloom" "$share/doc/everbloom"
  ln -s ../../redis/modules/everbloom.so "$root/$3/valkey/modules/everbloom.so"
  install -D -m 755 "$stage/everbloom" "$root/usr/bin/everbloom"
  # The lines of redis.conf.example above the first setting explain the loadmodule line, which must not be in this file.
  { cat packaging/everbloom.conf && sed -n '/^# bf\./,$p' redis.conf.example; } |
    sed "s|@MODULE@|$module|" >"$root/etc/everbloom/everbloom.conf"
  grep -q '^# bf.on-full refuse' "$root/etc/everbloom/everbloom.conf" || die "everbloom.conf lacks settings"
  for page in "$stage"/man/*; do
    install -D -m 644 "$page" "$share/man/man${page##*.}/${page##*/}"
    gzip -9 -n "$share/man/man${page##*.}/${page##*/}"
  done
  install -D -m 644 "$stage/completions/everbloom.bash" "$share/bash-completion/completions/everbloom"
  install -D -m 644 "$stage/completions/everbloom.zsh" "$share/zsh/$4/_everbloom"
  install -D -m 644 "$stage/completions/everbloom.fish" "$share/fish/vendor_completions.d/everbloom.fish"
  (cd "$stage" && cp -r "${DOCUMENTS[@]}" BUILD everbloom.cdx.json everbloom-tool.cdx.json "$share/doc/everbloom")
  gzip -9 -n "$share/doc/everbloom/"*.cdx.json
}

# Prints an install or removal script of a package. Its last line is CALL: script MODULE SUFFIX CALL
script() {
  printf '#!/bin/sh\nset -e\n'
  sed -e "s|@MODULE@|$1|g" -e "s/@SUFFIX@/$2/g" -e "s/@VERSION@/$version/g" packaging/instructions.sh
  printf '\n%s\n' "$3"
}

# Sets the time of all files below a directory to SOURCE_DATE_EPOCH: dated DIRECTORY
dated() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# Prints the releases in the format of Debian changelogs. Each entry refers to docs/changelog.md for its text.
debian_changelog() {
  local release day
  sed -nE 's/^## (Unreleased|[0-9][^ ]*)( \((.*)\))?$/\1 \3/p' docs/changelog.md | while read -r release day; do
    [ "$release" != Unreleased ] || release=$version day=@$SOURCE_DATE_EPOCH
    printf 'everbloom (%s) unstable; urgency=medium\n\n  * See /usr/share/doc/everbloom/docs/changelog.md.\n\n' "$release"
    printf ' -- %s  %s\n\n' "$maintainer" "$(date -R -d "$day")"
  done
}

# Prints the licences, with a reference in place of the Apache licence, which every Debian has: debian_copyright NOTICES
debian_copyright() {
  cat LICENSE
  awk '
    /^=+$/ { inside = 0 }
    /^ *Apache License$/ { inside = 1; print "Apache License, Version 2.0: see /usr/share/common-licenses/Apache-2.0" }
    !inside
    /END OF TERMS AND CONDITIONS/ { inside = 0 }' "$1"
}

# Builds the Debian package of the files in STAGE: package_deb TARGET STAGE
package_deb() {
  local architecture=amd64 root=$work/stage/deb-$1 module=/usr/lib/redis/modules/everbloom.so documents needed
  [[ $1 != aarch64-* ]] || architecture=arm64
  documents=$root/usr/share/doc/everbloom
  place "$2" "$root" usr/lib vendor-completions
  debian_copyright "$2/THIRD-PARTY-LICENSES.txt" >"$documents/copyright"
  # Debian keeps all licences in one file. README.md links to this name.
  ln -sf copyright "$documents/LICENSE"
  debian_changelog | gzip -9 -n >"$documents/changelog.gz"
  needed=$(for file in everbloom.so everbloom; do glibc_of "$2/$file"; done | sort -V | tail -n 1)
  mkdir -p "$root/DEBIAN"
  {
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@GLIBC@/$needed/" \
      -e "s/@MAINTAINER@/$maintainer/" -e "s/@SUMMARY@/$summary/" \
      -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f 1)/" packaging/debian/control
    sed -e "s|@MODULE@|$module|" -e 's/^$/./' -e 's/^/ /' packaging/description
  } >"$root/DEBIAN/control"
  echo /etc/everbloom/everbloom.conf >"$root/DEBIAN/conffiles"
  script "$module" -server "[ \"\$1\" != configure ] || configured" >"$root/DEBIAN/postinst"
  script "$module" -server "[ \"\$1\" != remove ] || removing" >"$root/DEBIAN/prerm"
  chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
  (cd "$root" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
  dated "$root"
  dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/everbloom_${version}_$architecture.deb" >/dev/null
}

# Builds the package for Fedora and RHEL: package_rpm TARGET STAGE
package_rpm() {
  local root=$work/stage/rpm-$1 module=/usr/lib64/redis/modules/everbloom.so spec=$work/stage/rpm-$1.spec licences
  place "$2" "$root" usr/lib64 site-functions
  cp "$2/THIRD-PARTY-LICENSES.txt" "$root/usr/share/doc/everbloom"
  dated "$root"
  # The table at the top of the notices names each licence in brackets.
  licences=$(sed -nE 's/^[^(]*\(([A-Za-z0-9.-]+)\): [0-9]+$/\1/p' "$2/THIRD-PARTY-LICENSES.txt" | sort -u | paste -sd '|')
  sed "s|@MODULE@|$module|" packaging/description >"$work/stage/description"
  script "$module" '' configured >"$work/stage/post"
  script "$module" '' "[ \"\$1\" -gt 0 ] || removing" >"$work/stage/preun"
  sed -e "s/@VERSION@/$version/" -e "s/@SUMMARY@/$summary/" -e "s/@MAINTAINER@/$maintainer/" -e "s|@ROOT@|$root|" \
    -e "s/@LICENSES@/${licences//|/ AND }/" -e "/@DESCRIPTION@/{r $work/stage/description" -e 'd}' \
    -e "/@POST@/{r $work/stage/post" -e 'd}' -e "/@PREUN@/{r $work/stage/preun" -e 'd}' packaging/rpm/everbloom.spec >"$spec"
  # RHEL 8 can read gzip. The other settings keep the name and the clock of this machine out of the package.
  rpmbuild -bb --quiet --target "${1%%-*}-linux" --define "_topdir $work/stage/rpmbuild" --define "_rpmdir $dist" \
    --define '_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define '_binary_payload w9.gzdio' \
    --define '_buildhost localhost' --define 'use_source_date_epoch_as_buildtime 1' --define 'source_date_epoch_from_changelog 0' \
    --define 'clamp_mtime_to_source_date_epoch 1' --define 'debug_package %{nil}' --define '__os_install_post %{nil}' \
    --define '_build_id_links none' "$spec" >"$work/rpm.log" 2>&1 || { tail -n 20 "$work/rpm.log" >&2 && die "rpmbuild failed"; }
}
