#!/bin/sh
# Install what a target needs and this machine lacks: run, test, or interop.
# As root or with sudo it installs; otherwise it prints the one line to type.
set -eu

need() { # need FILE PACKAGE
	[ -e "$1" ] || missing="$missing $2"
}

missing=
need /usr/bin/bwrap bubblewrap
need /usr/bin/python3 python3
need /usr/bin/bash bash
case ${1:-run} in
run) ;;
test | interop)
	need /usr/bin/node nodejs
	need /usr/bin/scdoc scdoc
	need /usr/bin/mandoc mandoc
	need /usr/bin/shellcheck shellcheck
	need /usr/bin/setpriv util-linux
	need /bin/ip iproute2
	need /usr/bin/jq jq
	need /usr/bin/strace strace
	need /usr/sbin/mkfs.ext4 e2fsprogs
	;;
*)
	echo "usage: setup.sh [run|test|interop]" >&2
	exit 64
	;;
esac
if [ "${1:-run}" = interop ] && ! command -v npm >/dev/null; then
	missing="$missing npm"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	sudo=sudo
else
	echo "setup: missing:$missing" >&2
	echo "setup: hint: sudo apt-get install -y$missing" >&2
	exit 69
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
$sudo apt-get install -y -qq --no-install-recommends $missing >&2
