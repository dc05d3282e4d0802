# The whole suite under the address sanitizer. The default linker warns of the sanitizer's own sections; lld does not.
set -euo pipefail
ASAN_OPTIONS=detect_leaks=0 timeout 1500 \
  swift test --sanitize address --scratch-path .build-asan -Xswiftc -use-ld=lld
