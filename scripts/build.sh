#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [TARGET ...]: configures build/PRESET once and builds it, or only the targets. Ninja configures again by itself when CMake files change.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
[ -e "build/$preset/build.ninja" ] || cmake --preset "$preset"
cmake --build --preset "$preset" ${JOBS:+-j "$JOBS"} ${1:+--target "$@"}
