# The whole suite under the thread sanitizer.
set -euo pipefail
SANITIZER=thread SESSION_WALKS=300 SUPERVISOR_WALKS=100 CABLE_WALKS=200 timeout 1500 swift test --sanitize thread --scratch-path .build-tsan
