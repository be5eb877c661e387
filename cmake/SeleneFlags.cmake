# SPDX-License-Identifier: Apache-2.0
# How everything is compiled: language, warnings, optimisation, hardening, sanitizers. No -march=native: what is shipped
# runs on any x86-64 or arm64 and chooses faster code at run time.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# RelWithDebInfo keeps the debug checks (SEL_DEBUG): it is what tests run. Release drops them and keeps symbols.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings
                    -Wundef)
if(SELENE_WERROR)
  add_compile_options(-Werror)
endif()
include_directories(${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/base ${CMAKE_CURRENT_SOURCE_DIR}/index)

if(SELENE_SANITIZE)
  if(SELENE_SANITIZE MATCHES "thread" AND SELENE_SANITIZE MATCHES "address")
    message(FATAL_ERROR "SELENE_SANITIZE=${SELENE_SANITIZE}: thread and address exclude each other")
  endif()
  add_compile_options(-fsanitize=${SELENE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SELENE_SANITIZE} -fno-sanitize-recover=all)
elseif(SELENE_HARDEN)
  # Fortify needs optimisation, and hides accesses from the sanitizers.
  add_compile_options(-fstack-protector-strong "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
