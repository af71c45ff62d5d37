# Root file systems of Debian's suites, for the scripts here that source this: as root, with debootstrap.
# ROOTS_MIRROR=address  where the suites are; default apt's first

mirror() {
  echo "${ROOTS_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}"
}

# make_root FOLDER SUITE [PACKAGE,…]: Python and these, once; its log is FOLDER.log
make_root() {
  [ -e "$1/ready" ] && return
  rm -rf "$1" && mkdir -p "$1" && debootstrap --variant=minbase --include="ca-certificates,python3,python3-venv${3:+,$3}" "$2" "$1" "$(mirror)" >"$1.log" 2>&1 &&
    echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/unsafe-io" && touch "$1/ready" # it need not outlive a loss of power
}

# in_root FOLDER DIRECTORY COMMAND…: there, with this machine's settings of the network. ROOT_BINDS=folder: to be read there, too
in_root() {
  local root=$1 directory=$2 file
  shift 2
  for file in /etc/resolv.conf /etc/hosts "${SSL_CERT_FILE:-/etc/hosts}"; do
    install -D "$file" "$root$file" 2>/dev/null
  done
  [ -z "${ROOT_BINDS:-}" ] || mkdir -p "$root$ROOT_BINDS"
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && { [ -z "${ROOT_BINDS:-}" ] || mount -o bind,ro "$ROOT_BINDS" "$0$ROOT_BINDS"; } &&
    exec chroot "$0" sh -c '\''cd "$0" && exec "$@"'\'' "$@"' "$root" "$directory" "$@"
}
