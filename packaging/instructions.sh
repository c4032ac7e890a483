# Functions of the package scripts of Debian and RPM. They print instructions at installation, upgrade and removal.
# scripts/dist replaces the words between @ and appends the line that calls a function.

# Prints each service of Redis and Valkey with its configuration file: those of installed servers, or else all.
servers() {
  found=
  for server in redis valkey; do
    for file in "/etc/$server/$server.conf" "/etc/$server.conf"; do
      [ ! -f "$file" ] || { found=yes && echo "$server@SUFFIX@ $file"; }
    done
  done
  [ -n "$found" ] || printf '%s\n' 'redis@SUFFIX@ /etc/redis/redis.conf' 'valkey@SUFFIX@ /etc/valkey/valkey.conf'
}

# Prints the lines of configuration files that a server without the module refuses, each with its file and line number.
lines_that_need_it() {
  grep -sHniE '^[[:space:]]*((loadmodule|include)[[:space:]].*everbloom|bf[.-]|cf-)' \
    /etc/redis/*.conf /etc/redis.conf /etc/valkey/*.conf /etc/valkey.conf || true
}

# Prints how to restart each server that still runs a replaced file of the module.
outdated_servers() {
  for process in /proc/[0-9]*; do
    grep -qsE '/everbloom\.so[^/]*\(deleted\)$' "$process/maps" || continue
    unit=$(sed -n 's|.*/\([^/]*\.service\)$|\1|p' "$process/cgroup" 2>/dev/null | head -n 1)
    if [ -n "$unit" ]; then
      echo "    sudo systemctl restart $unit"
    else
      echo "    process ${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline")"
    fi
  done
}

configured() {
  outdated=$(outdated_servers)
  if [ -n "$outdated" ]; then
    echo
    echo "Running servers keep the old release of everbloom until they restart. A restart loads @VERSION@:"
    echo
    echo "$outdated"
    echo
  elif [ -z "$(lines_that_need_it)" ]; then
    echo
    echo "everbloom @VERSION@ is installed. No configuration in /etc loads it yet. To load it:"
    servers | while read -r service file; do
      echo
      echo "    echo 'loadmodule @MODULE@' | sudo tee -a $file"
      echo "    sudo systemctl restart $service"
    done
    echo
    echo "Settings: /etc/everbloom/everbloom.conf. Commands: man 7 everbloom. Tool: man everbloom."
    echo
  fi
}

removing() {
  lines=$(lines_that_need_it)
  [ -n "$lines" ] || return 0
  {
    echo
    echo "WARNING: everbloom is removed, but a server's configuration still uses it. Without the module this server"
    echo "does not start again. Remove these lines, or install everbloom again:"
    echo
    echo "$lines" | sed 's/^/    /'
    echo
    echo "If the server's data has keys of the types everbloom, MBbloom--, bloomfltr, MBbloomCF, CMSk-TYPE, TopK-TYPE or"
    echo "TDIS-TYPE, it does not start without the module either. Then install everbloom again, delete these keys in each"
    echo "database (SCAN 0 TYPE everbloom finds the first ones of a type) and SAVE, before you remove it. The page"
    echo "operations.md of the documentation, section Removing, has all steps."
    echo
  } >&2
}
