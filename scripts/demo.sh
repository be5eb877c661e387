#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh [--valgrind] BUILD [option ...]: plays a generated agent workload through a store whose memory is too small
# for it, with a restart half-way, and verifies every restored byte. Further options go to selene-replay. The record
# directory lies in the build folder (a real file system, unlike /tmp on many machines) and is removed at the end.
set -eu
runner=""
size="--memory 48M"
if [ "$1" = --valgrind ]; then
    runner="valgrind --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=definite,indirect,possible
            --error-exitcode=9 --num-callers=30"
    # Under valgrind there is no room to map an index for a disk without a limit.
    size="--memory 8M --requests 60 --disk-limit 4G"
    shift
fi
build=$1
shift
replay=$build/tools/selene-replay
if [ ! -x "$replay" ]; then
    echo "demo: $replay was not built" >&2
    exit 1
fi
scratch=$(mktemp -d "$build/demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# $runner and $size are lists: they must split.
set -- --generate agent $size --disk "$scratch/store" --restart-at 0.5 "$@"
echo "demo: selene-replay $*"
$runner "$replay" "$@"
