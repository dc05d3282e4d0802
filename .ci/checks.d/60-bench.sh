# `websocket bench` runs every scenario in every way against our own echo server; what is measured does not matter here.
set -euo pipefail
work=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$work"' EXIT
tool=.build/release/websocket
"$tool" serve --echo >"$work/url" 2>/dev/null & server=$!
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
url=$(head -n 1 "$work/url")
bench() { timeout 120 "$tool" bench "$@" "$url"; }
for scenario in s1 s2 s3a s3b s5; do
  for mode in loop queue; do
    for api in bytes string receive; do
      bench --scenario "$scenario" --mode "$mode" --api "$api" --messages 20 --connections 2
    done
  done
  bench --scenario "$scenario" --mode async --messages 20 --connections 2
done
bench --scenario s4 --connections 20
bench --scenario s1 --messages 10 --rounds 2 --json --versus "$tool bench --scenario s1 --messages 10 --json $url" \
  | grep -q '"ratio":'

# Memory does not grow with the messages of many connections, on either side: here, since what only the optimiser gets
# wrong is not seen by the tests.
resident() { bench "$@" --connections 16 | grep -o 'rss [0-9]*' | cut -d ' ' -f 2; }
served() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }
bench --scenario s1 --messages 200 --connections 16
before=$(served)
for way in "s1 --mode loop" "s1 --mode queue" "s2 --mode loop --api receive" "s2 --mode async"; do
  # shellcheck disable=SC2086 # a way is a scenario and options
  few=$(resident --scenario $way --messages 200) many=$(resident --scenario $way --messages 5000)
  echo "$way: $few KiB resident after 3,200 messages, $many after 80,000"
  (( many - few < 4096 )) || { echo "memory grows with the messages" >&2; exit 1; }
done
after=$(served)
echo "the server: $before KiB resident, then $after"
(( after - before < 4096 )) || { echo "the server's memory grows with the messages" >&2; exit 1; }

# A server that does not echo is an error, and so is wrong usage.
expect() {
  local expected=$1 status=0
  shift
  timeout 60 "$tool" bench "$@" >/dev/null 2>&1 || status=$?
  [[ $status -eq $expected ]] || { echo "expected status $expected of: bench $*, got $status" >&2; return 1; }
}
expect 1 --scenario s1 ws://127.0.0.1:1/
expect 2 --scenario s9 "$url"
expect 2 --scenario s1 --unknown "$url"
expect 2 "$url"
# Somebody else talks in the room: what comes is not what was sent.
"$tool" serve >"$work/room" 2>/dev/null & room=$!
for _ in $(seq 1200); do [[ -s $work/room ]] && break; sleep 0.05; done
{ yes || true; } | timeout 60 "$tool" connect "$(head -n 1 "$work/room")" >/dev/null 2>&1 & talker=$!
trap 'kill ${server:-} ${room:-} ${talker:-} 2>/dev/null || true; rm -rf "$work"' EXIT
expect 1 --scenario s1 "$(head -n 1 "$work/room")"

# What Action Cable costs; a subscription takes about the memory that its documentation says.
modules=(CSystem WebSocketCore WebSocketTransport WebSocketHandling WebSocketServing WebSocketTesting ActionCable)
mapfile -t objects < <(for module in "${modules[@]}"; do find ".build/release/$module.build" -name '*.o'; done)
swiftc -O -swift-version 6 -warnings-as-errors -I .build/release/Modules \
  -Xcc -fmodule-map-file=.build/release/CSystem.build/module.modulemap \
  .ci/bench/cable/main.swift "${objects[@]}" -o "$work/cable"
"$work/cable" serve >"$work/cable-url" 2>/dev/null & cable=$!
trap 'kill ${server:-} ${room:-} ${talker:-} ${cable:-} 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 1200); do [[ -s $work/cable-url ]] && break; sleep 0.05; done
timeout 600 "$work/cable" "$(head -n 1 "$work/cable-url")" 2>/dev/null
