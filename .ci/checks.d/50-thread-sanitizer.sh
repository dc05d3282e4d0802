# The whole suite under the thread sanitizer. Four tests run at once: under a sanitizer all at once keep each other from
# the processor for so long that time-outs pass which are real ones.
set -euo pipefail
SANITIZER=thread SESSION_WALKS=300 SUPERVISOR_WALKS=100 CABLE_WALKS=200 timeout 1500 \
  swift test --sanitize thread --scratch-path .build-tsan --experimental-maximum-parallelization-width 4
