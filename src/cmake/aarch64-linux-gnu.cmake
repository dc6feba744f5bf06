# Toolchain: for 64-bit ARM on a machine of another kind, with Debian's g++-aarch64-linux-gnu. Programs that the build or the
# tests start run under qemu-user. Of cxxopts, nlohmann-json and Catch2 only headers are used: those of the host.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# The compiler's own libraries, such as libstdc++, are in /usr/aarch64-linux-gnu; programs are those of the host.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
