#!/bin/sh
# check.sh PYTHON: no stack of ways.c ends "complete" before its thread's start, by Debian's cross compilers and qemu-user.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ulimit -c unlimited
while read -r compiler machine options; do
    rm -f ./*
    "$compiler-gcc" -O2 -static -pthread -w $options "$here/ways.c" -o ways
    timeout 120 "qemu-$machine-static" ./ways >/dev/null 2>&1 || true
    echo "$machine $options"
    "$1" "$here/check.py" qemu_*.core ways
done <<MACHINES
aarch64-linux-gnu aarch64 -g
arm-linux-gnueabihf arm -g
arm-linux-gnueabihf arm -g0
arm-linux-gnueabihf arm -g0 -marm
arm-linux-gnueabihf arm -g0 -O0
i686-linux-gnu i386 -g
powerpc64le-linux-gnu ppc64le -g
s390x-linux-gnu s390x -g
MACHINES
