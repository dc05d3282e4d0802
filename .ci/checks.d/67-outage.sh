# The clients that connect again live through outages: resets, refusals and hanging attempts; sleep; a server of Python's
# websockets behind haproxy that is restarted 20 times, frozen and away; a network link that goes down and up.
set -euo pipefail
.ci/peers/outage/run .build/release/websocket
