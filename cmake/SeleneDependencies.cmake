# SPDX-License-Identifier: Apache-2.0
# What is needed from outside, by Debian package. A required one that is missing stops the configuration with the
# package's name; an optional one is noted for the summary and built without.
#
#   SELENE_HAVE_CUDA, SELENE_HAVE_IBVERBS, SELENE_HAVE_ROCKSDB   optional parts found
#   selene_rocksdb, selene_ibverbs                               imported targets for them
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(selene_missing "")
foreach(need liburing:liburing-dev lmdb:liblmdb-dev libcrypto:libssl-dev libxxhash:libxxhash-dev
             jansson:libjansson-dev libmicrohttpd:libmicrohttpd-dev cmocka:libcmocka-dev)
  string(REPLACE ":" ";" need ${need})
  list(GET need 0 module)
  list(GET need 1 package)
  if(module STREQUAL "cmocka" AND NOT SELENE_TESTS)
    continue()
  endif()
  pkg_check_modules(SELENE_${module} QUIET ${module})
  if(NOT SELENE_${module}_FOUND)
    list(APPEND selene_missing ${package})
  endif()
endforeach()
if(selene_missing)
  list(JOIN selene_missing " " selene_missing)
  message(FATAL_ERROR "Missing packages: ${selene_missing}\nInstall them by hand or with: make deps")
endif()

function(selene_optional variable module target)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET GLOBAL ${module})
  if(${target}_FOUND)
    add_library(selene_${target} ALIAS PkgConfig::${target})
    set(${variable} ON PARENT_SCOPE)
  else()
    set(${variable} OFF PARENT_SCOPE)
  endif()
endfunction()
selene_optional(SELENE_HAVE_IBVERBS libibverbs ibverbs)
selene_optional(SELENE_HAVE_ROCKSDB rocksdb rocksdb)

find_program(SELENE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(SELENE_HAVE_CUDA OFF)
if(SELENE_NVCC)
  set(SELENE_HAVE_CUDA ON)
endif()
