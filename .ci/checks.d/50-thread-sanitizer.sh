# The whole suite under the thread sanitizer.
set -euo pipefail
timeout 1500 swift test --sanitize thread --scratch-path .build-tsan
