# Instructions and allocations per message stay what they are; see .ci/bench/counts.
set -euo pipefail
[[ $(uname -m) == x86_64 ]] || { echo "the kept counts are those of x86_64: skipped"; exit 0; }
if ! command -v valgrind >/dev/null; then
  apt-get update >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends valgrind >/dev/null
fi
.ci/peers/tls/headers  # the yardsticks speak TLS too
.ci/bench/counts
