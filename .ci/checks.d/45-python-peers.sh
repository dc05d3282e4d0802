# The tool exchanges messages, pings and closes with the servers of python's websockets and aiohttp.
set -euo pipefail
.ci/peers/python/run .build/release/websocket
