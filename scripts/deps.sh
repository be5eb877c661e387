#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a build, the tests and the demo need, as far as they are missing; more may be named
# as arguments. Calls apt-get only when something is missing, and says what it installs.
set -eu
packages="build-essential cmake ninja-build pkg-config python3 clang-format-14 groff-base
liburing-dev liblmdb-dev libssl-dev libxxhash-dev libcmocka-dev libjansson-dev libmicrohttpd-dev
$*"

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: not a Debian system; going on with what is installed. Needed, by their Debian names:"
    echo "deps:" $packages
    exit 0
fi
missing=""
for package in $packages; do
    case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || :)" in
    "install ok installed") ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "deps: these packages are missing, and there is neither root nor sudo to install them:$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "deps: installing$missing"
# $as_root and $missing are lists: they must split.
$as_root apt-get -qq update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing >/dev/null
