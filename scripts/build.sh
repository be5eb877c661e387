#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET: configures build/PRESET once and builds it. Ninja configures again by itself when CMake files change.
set -eu
cd "$(dirname "$0")/.."
[ -e "build/$1/build.ninja" ] || cmake --preset "$1"
cmake --build --preset "$1" ${JOBS:+-j "$JOBS"}
