# The whole suite under the thread sanitizer.
set -euo pipefail
swift test --sanitize thread --scratch-path .build-tsan
