#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD SOURCE CC CMAKE: installs into a scratch prefix, moves it (nothing may depend on where it was), and
# builds and runs the first example against it, with pkg-config shared and static and with find_package both ways, and the
# second one, which needs the other header, too.
set -eu
build=$1 source=$2 cc=$3 cmake=$4
scratch=$(mktemp -d "$build/install-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
"$cmake" --install "$build" --prefix "$scratch/first" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
prefix=$scratch/moved
mv "$scratch/first" "$prefix"

pc=$(find "$prefix" -name selene.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
for header in selene.h selene_offers.h selene_error.h selene_layout.h; do
    test -f "$prefix/include/$header" || { echo "$header is not installed"; exit 1; }
done

run() {
    echo "== $1"
    shift
    "$@" >"$scratch/out" || { cat "$scratch/out"; exit 1; }
    grep -q '^restored 96 of 100 tokens$' "$scratch/out" && grep -q '^all bytes are right$' "$scratch/out" || { cat "$scratch/out"; exit 1; }
}
example=$source/docs/examples/minimal.c
# The lists that pkg-config prints must split.
"$cc" "$example" $(pkg-config --cflags --libs selene) -o "$scratch/shared"
run "pkg-config, shared" env LD_LIBRARY_PATH="$libdir" "$scratch/shared"
"$cc" "$example" $(pkg-config --cflags selene) "$libdir/libselene.a" \
    $(pkg-config --static --libs selene | sed 's/-lselene//') -o "$scratch/static"
run "pkg-config, static" "$scratch/static"
"$cc" "$(dirname "$example")/offers.c" $(pkg-config --cflags --libs selene) -o "$scratch/offers"
env LD_LIBRARY_PATH="$libdir" "$scratch/offers" >"$scratch/out" || { cat "$scratch/out"; exit 1; }

mkdir "$scratch/consumer"
cat >"$scratch/consumer/CMakeLists.txt" <<LISTS
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(Selene 0.1 REQUIRED)
add_executable(with_shared $example)
target_link_libraries(with_shared Selene::selene)
add_executable(with_static $example)
target_link_libraries(with_static Selene::selene_static)
LISTS
{
    "$cmake" -S "$scratch/consumer" -B "$scratch/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" &&
        "$cmake" --build "$scratch/consumer/build"
} >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
run "find_package, shared" "$scratch/consumer/build/with_shared"
run "find_package, static" "$scratch/consumer/build/with_static"

for page in "$source"/docs/man/*.1; do
    test -f "$prefix/share/man/man1/$(basename "$page")" || { echo "$page is not installed"; exit 1; }
done
if ls "$prefix"/bin/selene-* >/dev/null 2>&1; then
    for tool in "$prefix"/bin/selene-*; do
        run_tool=$(env LD_LIBRARY_PATH="$libdir" "$tool" --help 2>&1) || { echo "$tool --help failed: $run_tool"; exit 1; }
    done
fi
