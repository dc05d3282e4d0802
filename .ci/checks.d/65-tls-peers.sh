# wss against others: nginx that ends TLS before our server, without and with client certificates; openssl s_server with
# one version each; Python's websockets; the Autobahn test suite, sections 1 to 10: 301 of 301 strict.
set -euo pipefail
work=$(mktemp -d)
trap 'kill ${pids[@]} 2>/dev/null || true; rm -rf "$work"' EXIT
pids=()
tool=.build/release/websocket
peers=.ci/peers/tls
certificates=$work/certificates
"$peers/certificates" "$certificates"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
await_port() { for _ in $(seq 600); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done; return 1; }
await_line() { for _ in $(seq 1200); do [[ -s $1 ]] && return; sleep 0.1; done; return 1; }
# Sends one message to the URL; the events must have the wanted text in them.
expect() {
  local name=$1 wanted=$2
  shift 2
  said=$(timeout 60 "$tool" connect --json --connect-timeout 30 --count 1 "$@" <<<"hello" || true)
  grep -qF -- "$wanted" <<<"$said" || { printf '%s: %s\n' "$name" "$said" >&2; return 1; }
  echo "$name: passed"
}
hello='{"event":"text","data":"hello"}'

"$tool" serve --echo >"$work/url" 2>/dev/null & pids+=($!)
await_line "$work/url"
port=$(free_port) mutual=$(free_port)
"$peers/nginx" "$certificates" "$work/nginx" "$port" "$mutual" "$(sed 's|.*:\([0-9]*\)/|\1|' "$work/url")" & pids+=($!)
await_port "$port"; await_port "$mutual"
identity=(--cert "$certificates/client.pem" --key "$certificates/client-key.pem")
expect "nginx" "$hello" --ca "$certificates/ca.pem" "wss://localhost:$port/"
expect "nginx, by its address" "$hello" --ca "$certificates/ca.pem" "wss://127.0.0.1:$port/"
expect "nginx, from an unknown authority" '"case":"tls"' "wss://localhost:$port/"
expect "nginx, unverified" "$hello" --insecure "wss://localhost:$port/"
expect "nginx that demands a certificate" "$hello" --ca "$certificates/ca.pem" "${identity[@]}" "wss://localhost:$mutual/"
expect "nginx that gets none" '"status":400' --ca "$certificates/ca.pem" "wss://localhost:$mutual/"

"$tool" serve --echo --cert "$certificates/server.pem" --key "$certificates/server-key.pem" \
  --client-ca "$certificates/ca.pem" >"$work/mutual" 2>/dev/null & pids+=($!)
await_line "$work/mutual"
expect "our server that demands a certificate" "$hello" --ca "$certificates/ca.pem" "${identity[@]}" \
  "$(head -n 1 "$work/mutual")"
expect "our server that gets none" '"case":"tls"' --ca "$certificates/ca.pem" "$(head -n 1 "$work/mutual")"

"$peers/websockets" "$certificates" >"$work/websockets" & pids+=($!)
await_line "$work/websockets"
expect "Python's websockets" "$hello" --ca "$certificates/ca.pem" "wss://localhost:$(cat "$work/websockets")/"

for version in tls1_2 tls1_3; do
  timeout 120 "$peers/s_server" "$certificates" "$version" "$tool" connect --json --ca "$certificates/ca.pem"
done

[[ -f ${AUTOBAHN_HOME:-$HOME/.cache/autobahn}/.complete ]] || apt-get update >/dev/null
AUTOBAHN_CERT=$certificates/server.pem AUTOBAHN_KEY=$certificates/server-key.pem \
  AUTOBAHN_EXCLUDE='"12.*","13.*"' AUTOBAHN_CASES=301 \
  .ci/peers/autobahn/run client "$work/autobahn" "$tool" autobahn --ca "$certificates/ca.pem"
