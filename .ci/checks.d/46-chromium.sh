# Headless Chromium gets back from our echo server what it sends.
set -euo pipefail
work=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$work"' EXIT
.build/release/websocket serve --echo >"$work/url" 2>/dev/null & server=$!
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
.ci/peers/chromium/run "$(head -n 1 "$work/url")"
