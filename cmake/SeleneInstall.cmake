# SPDX-License-Identifier: Apache-2.0
# Install rules for whatever of the product exists: libraries, headers, pkg-config and CMake package files, man pages.
