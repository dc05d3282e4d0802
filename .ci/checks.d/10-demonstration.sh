# The README's first command: its transcript must show the reconnection, and every step must happen.
set -euo pipefail
transcript=$(timeout 240 .build/debug/websocket chat)
printf '%s\n' "$transcript"
grep -q reconnected <<<"$transcript"
