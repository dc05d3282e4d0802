# A line that cannot be sent is told of on standard error, with `--json` as without.
set -euo pipefail
work=$(mktemp -d)
.build/debug/websocket serve --echo > "$work/url" &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
for options in "" --json --reconnect; do
  said=$(printf 'too long\nok\n' | timeout 240 .build/debug/websocket connect $options --max-message 4 \
    "$(head -1 "$work/url")" 2>&1 >/dev/null)
  echo "$said" | grep "^not sent.*too long$"
done
