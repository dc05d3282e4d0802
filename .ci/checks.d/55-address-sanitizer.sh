# The whole suite under the address sanitizer. What is resident says nothing then, as the tests that look at it know by
# SANITIZER; leaks are counted by tests of their own. lld, since the default linker warns of the sanitizer's sections.
# Four tests run at once, as under the thread sanitizer.
set -euo pipefail
SANITIZER=address SESSION_WALKS=300 SUPERVISOR_WALKS=100 CABLE_WALKS=200 ASAN_OPTIONS=detect_leaks=0 timeout 1500 \
  swift test --sanitize address --scratch-path .build-asan -Xswiftc -use-ld=lld \
  --experimental-maximum-parallelization-width 4
