# `websocket connect` closes its connection and ends when nobody reads what it prints any more; a line that cannot be sent
# is told of on standard error, with `--json` as without.
set -euo pipefail
work=$(mktemp -d)
.build/debug/websocket serve --echo > "$work/url" &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
url=$(head -1 "$work/url")
for options in "" --json --reconnect; do
  # Without the pipe's end the input would never end.
  timeout 240 .build/debug/websocket connect $options "$url" 2>/dev/null \
    < <(while echo line; do sleep 0.1; done 2>/dev/null) | head -1
  said=$(printf 'too long\nok\n' | timeout 240 .build/debug/websocket connect $options --max-message 4 "$url" \
    2>&1 >/dev/null)
  echo "$said" | grep "^not sent.*too long$"
done
