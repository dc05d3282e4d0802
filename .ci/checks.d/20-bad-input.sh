# `websocket connect` says in one line what was wrong, and exits with 1. `websocket chat` ends with that when it comes back
# no more, also while its input goes on.
set -euo pipefail
work=$(mktemp -d)
python3 - "$work" <<'PY' &
import base64, hashlib, re, socket, sys, threading, time
answers = {
    "no-http": b"220 mail.example ESMTP\r\n",
    "not-found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "wrong-accept": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
    "silent": None,
    "dead": "accept",
    "bye": "close",
    "cable": "cable",
}
def accepted(request, subprotocol=b""):
    key = re.search(rb"Sec-WebSocket-Key: (\S+)", request).group(1)
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n" + subprotocol + b"\r\n")
def text(payload):
    return b"\x81" + bytes([len(payload)]) + payload
held = []
def serve(name, answer):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with open(f"{sys.argv[1]}/{name}", "w") as file:
        file.write(str(listener.getsockname()[1]))
    open(f"{sys.argv[1]}/{name}.ready", "w").close()
    while True:
        connection, _ = listener.accept()
        request = connection.recv(4096)
        if answer == "cable":
            connection.sendall(accepted(request, b"Sec-WebSocket-Protocol: actioncable-v1-json\r\n")
                               + text(b'{"type":"welcome"}'))
            connection.recv(4096)
            identifier = rb'"identifier":"{\"channel\":\"C\"}"'
            connection.sendall(text(b'{' + identifier + b',"type":"confirm_subscription"}')
                               + text(b'{' + identifier + b',"message":{"a":\n1}}'))
        elif answer is not None:
            connection.sendall(accepted(request) if answer in ("accept", "close") else answer)
        if answer == "close":
            connection.sendall(b"\x88\x02\x03\xe8")
            connection.recv(4096)
            connection.close()
        held.append(connection)
closed = socket.socket()
closed.bind(("127.0.0.1", 0))  # bound and not listening: connecting to it is refused
with open(f"{sys.argv[1]}/refused", "w") as file:
    file.write(str(closed.getsockname()[1]))
open(f"{sys.argv[1]}/refused.ready", "w").close()
for name, answer in answers.items():
    threading.Thread(target=serve, args=(name, answer), daemon=True).start()
time.sleep(600)
PY
peer=$!
trap 'kill $peer 2>/dev/null || true; rm -rf "$work"' EXIT
for case in no-http not-found wrong-accept silent refused; do
  for _ in $(seq 1200); do [[ -f $work/$case.ready ]] && break; sleep 0.05; done
  status=0
  said=$(timeout 60 .build/debug/websocket connect "ws://127.0.0.1:$(cat "$work/$case")/" --connect-timeout 1 \
    2>&1 >/dev/null </dev/null) || status=$?
  echo "$case: exit $status: $said"
  [[ $status -eq 1 && $(wc -l <<<"$said") -eq 1 && -n $said ]]
done

# A server that opens and then says nothing any more is given up by its missing answers to pings.
for _ in $(seq 1200); do [[ -f $work/dead.ready ]] && break; sleep 0.05; done
status=0
said=$(timeout 60 .build/debug/websocket connect "ws://127.0.0.1:$(cat "$work/dead")/" --ping-interval 0.2 --json \
  2>/dev/null < <(sleep 10)) || status=$?
echo "dead: exit $status: $said"
[[ $status -eq 1 ]] && grep -q '"event":"close","code":1006' <<<"$said"

# A chat that is refused, or closed for good, ends by itself: its input does not end here.
mkfifo "$work/input"
exec 3<>"$work/input"
for expected in "1 not-found status 404" "0 bye code 1000"; do
  read -r wanted case words <<<"$expected"
  for _ in $(seq 1200); do [[ -f $work/$case.ready ]] && break; sleep 0.05; done
  status=0
  echo line >&3
  said=$(timeout 60 .build/debug/websocket chat "ws://127.0.0.1:$(cat "$work/$case")/" 2>&1 <&3) || status=$?
  echo "chat, $case: exit $status: $said"
  [[ $status -eq $wanted ]] && grep -q "$words" <<<"$said"
done

# A body with lines of its own is one line all the same; what is no use without another option is wrong usage.
for _ in $(seq 1200); do [[ -f $work/cable.ready ]] && break; sleep 0.05; done
said=$(timeout 60 .build/debug/websocket cable "ws://127.0.0.1:$(cat "$work/cable")/" --channel C --count 1 --json)
echo "cable: $said"
[[ $(tail -n 1 <<<"$said") == '{"event":"message","message":{"a":1}}' ]]
status=0
timeout 60 .build/debug/websocket serve --client-ca "$work/ca.pem" || status=$?
[[ $status -eq 2 ]]
