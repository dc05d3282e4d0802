# Each parser of received bytes meets 30 s of a fuzzer's, starting from the kept seeds.
set -euo pipefail
.ci/fuzz/run 30
