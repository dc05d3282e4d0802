# `websocket connect` closes its connection and ends when nobody reads what it prints any more.
set -euo pipefail
work=$(mktemp -d)
.build/debug/websocket serve --echo > "$work/url" &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
for options in "" --json --reconnect; do
  # Without the pipe's end the input would never end.
  timeout 240 .build/debug/websocket connect $options "$(head -1 "$work/url")" 2>/dev/null \
    < <(while echo line; do sleep 0.1; done 2>/dev/null) | head -1
done
