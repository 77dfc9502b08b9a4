#!/bin/sh
# Records the files of this folder again, each with the text of `perf script` beside it. Needs perf, gcc and the right to
# record; run it in an empty folder of a short path: the path of the program is in every file.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
gcc -O1 -g1 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -nostdlib -static -Wl,--build-id=sha1 -Wl,-z,noseparate-code -Wl,--eh-frame-hdr \
    -ffreestanding -fno-stack-protector -o spin "$HERE/spin.c"
objcopy -R .comment spin

record() {
    name=$1
    shift
    perf record -q -F 100 -o "$name.data" "$@" -- ./spin
    script "$name"
}

script() {
    perf script -i "$1.data" -F comm,pid,tid,time,event,period,ip,sym,symoff,dso --no-inline > "$1.txt"
}

USER=cpu-clock:u
record plain -e $USER -g
record no-stacks -e $USER
record zstd -e $USER -g -z
record build-id-mmap -e $USER -g --buildid-mmap
record two-events -e cpu-clock:u,task-clock:u -g
record group -e '{cpu-clock:u,task-clock:u}:S' -g
record dwarf -e $USER --call-graph dwarf,512
record namespaces -e $USER -g --namespaces --all-cgroups --switch-events
record kernel -e cpu-clock -g
perf record -q -F 100 -e $USER -g -o - -- ./spin > pipe.data
script pipe
perf record -q -F 100 -e $USER -g -z -o - -- ./spin > pipe-zstd.data
script pipe-zstd
perf inject -b -i plain.data -o injected.data
script injected
perf record -q -F 100 -e $USER -g --threads -o threads.data -- ./spin
perf script -i threads.data -F comm,pid,tid,time,event,period,ip,sym,symoff,dso --no-inline > threads.txt
rm -f threads.data.old
chmod -R a+r .
mv ./spin ./*.data ./*.txt "$HERE"
