#!/bin/sh
# The programs and cores of this folder: Debian's cross compilers and qemu-user-static. qemu 7.2 leaves no cores of
# riscv64: that one is gdb-multiarch's, of its registers and stack.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
ulimit -c unlimited
while read -r compiler machine column options; do
    "$compiler-gcc" -O2 -g0 -fno-stack-protector -fasynchronous-unwind-tables -nostdlib -static -no-pie \
        -Wl,--build-id=sha1 -DRETURN_COLUMN="\"$column\"" $options "$here/deep.c" -o "$here/$machine"
    cd "$work" && rm -f ./* && cp "$here/$machine" . && env -i "$(command -v "qemu-$machine-static")" "./$machine"
    for core in qemu_*.core; do [ -f "$core" ] && python3 "$here/trim.py" "$core" "$here/$machine.core"; done
    [ "$machine" = riscv64 ] && env -i PATH="$PATH" python3 "$here/debugged.py" riscv64 "$here/riscv64.core"
done <<MACHINES
aarch64-linux-gnu aarch64 30
arm-linux-gnueabihf arm 14 -funwind-tables -Wl,--defsym=__aeabi_unwind_cpp_pr0=0 -Wl,--defsym=__aeabi_unwind_cpp_pr1=0
i686-linux-gnu i386 8
powerpc64le-linux-gnu ppc64le 65
riscv64-linux-gnu riscv64 1
s390x-linux-gnu s390x 14
MACHINES
# without tables: "can't unwind" is all that .ARM.exidx has for it
arm-linux-gnueabihf-gcc -O2 -g0 -fno-stack-protector -fno-asynchronous-unwind-tables -nostdlib -static -no-pie \
    -Wl,--build-id=sha1 "$here/deep.c" -o "$here/arm-plain"
cd "$work" && rm -f ./* && cp "$here/arm-plain" . && env -i "$(command -v qemu-arm-static)" ./arm-plain
python3 "$here/trim.py" qemu_*.core "$here/arm-plain.core"
rm -rf "$work"
