# Headless Chromium opens both pages of the tool: they show what comes, send, and come back after a restart.
set -euo pipefail
.ci/peers/pages/run .build/release/websocket
