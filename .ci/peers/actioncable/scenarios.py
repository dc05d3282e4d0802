"""What must hold against Action Cable of Rails: one server, then two with Redis behind nginx."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import queue
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOOL = sys.argv[1]
PATIENCE = 90  # seconds, for a starved machine


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, port=None, **env):
        self.port = port or free_port()
        self.env = [f"{key}={value}" for key, value in env.items()]
        self.start()

    def start(self):
        out = subprocess.run([HERE / "start", str(self.port), *self.env], check=True, capture_output=True, text=True)
        self.pid = int(out.stdout)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        for _ in range(300):
            try:
                os.kill(self.pid, 0)
                time.sleep(0.1)
            except ProcessLookupError:
                return
        os.kill(self.pid, signal.SIGKILL)

    def post(self, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=json.dumps({} if body is None else body).encode(), method="POST"
        )
        urllib.request.urlopen(request, timeout=PATIENCE).close()

    def broadcast(self, stream, body):
        self.post(f"/broadcast?stream={stream}", body)


class Client:
    """`websocket cable --json`, and its events as they come."""

    def __init__(self, port, *options, query=""):
        self.process = subprocess.Popen(
            [TOOL, "cable", f"ws://127.0.0.1:{port}/cable{query}", "--json", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def next(self):
        return self.events.get(timeout=PATIENCE)

    def expect(self, *events):
        for event in events:
            got = self.next()
            assert got == event, f"{got} in the place of {event}"

    def until(self, event):
        while (got := self.next()) != event:
            assert got is not None, f"the end in the place of {event}"

    def ends(self, status):
        assert self.next() is None
        got = self.process.wait(PATIENCE)
        assert got == status, f"exit status {got} in the place of {status}"

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        got = self.process.wait(PATIENCE)
        assert got == 0, f"exit status {got} after an interrupt"


CONFIRMED = {"event": "confirmed"}
GAP = {"event": "gap"}


def message(value):
    return {"event": "message", "message": value}


def disconnected(reason, will_reconnect):
    return {"event": "disconnected", "reason": reason, "willReconnect": will_reconnect}


def room(number):
    return ["--channel", "ChatChannel", "--param", f"room_id={number}"]


def passed(name):
    print(f"{name}: passed", flush=True)


def one_server():
    server = Server()
    port = server.port

    client = Client(port, *room(42), "--perform", "speak", "--data", '{"text":"hi","my_object":{"a":[1.5,null]}}', "--count", "1")
    client.expect(CONFIRMED, message({"text": "hi", "my_object": {"a": [1.5, None]}}))
    client.ends(0)
    passed("subscribe, confirm, speak")

    client = Client(port, *room(0))
    client.expect({"event": "rejected"})
    client.ends(1)
    passed("reject")

    client = Client(port, *room("name"), "--perform", "whoami", "--count", "1", query="?token=ada")
    client.expect(CONFIRMED, message({"token": "ada", "room_id": "name"}))
    client.ends(0)
    passed("whoami, a parameter that is text")

    client = Client(port, *room(1), "--perform", "burst", "--data", '{"count":10000,"pad":10}', "--count", "10000")
    client.expect(CONFIRMED, *(message({"n": n, "pad": "x" * 10}) for n in range(10_000)))
    client.ends(0)
    passed("burst of 10,000 in order")

    client = Client(port, *room(2), "--perform", "explode")
    client.expect(CONFIRMED)
    time.sleep(1)
    server.broadcast("chat_2", {"after": True})
    client.expect(message({"after": True}))
    client.stop()
    passed("an exception in an action")

    client = Client(port, *room(1), query="?token=denied")
    client.expect(disconnected("unauthorized", False))
    client.ends(1)
    passed("unauthorized")

    client = Client(port, "--channel", "SlowChannel", "--param", "delay=2")
    client.expect(CONFIRMED)
    client.stop()
    passed("slow confirmation")

    client = Client(port, "--channel", "NoSuchChannel")
    client.expect({"event": "timedOut"})
    client.ends(1)
    passed("an unknown channel")

    client = Client(port, *room(3), query="?token=remote")
    client.expect(CONFIRMED)
    server.post("/disconnect?token=remote")
    client.expect(disconnected("lost", True), CONFIRMED, GAP)
    server.broadcast("chat_3", 1)
    client.expect(message(1))
    client.stop()
    passed("remote disconnect, which Rails 6.1 only closes")

    for how in (signal.SIGTERM, signal.SIGKILL):
        client = Client(port, *room(4))
        client.expect(CONFIRMED)
        server.kill(how)
        assert client.next()["event"] == "disconnected"
        server.start()
        client.until(CONFIRMED)
        client.expect(GAP)
        server.broadcast("chat_4", "back")
        client.expect(message("back"))
        client.stop()
        passed(f"server restart after {how.name}")

    environment = dict(os.environ, ACTION_CABLE_URL=f"ws://127.0.0.1:{port}/cable")
    out = subprocess.run(
        ["swift", "test", "--skip-build", "--filter", "RailsTests"], env=environment, capture_output=True, text=True
    )
    assert out.returncode == 0 and "with 1 test" in out.stdout + out.stderr, out.stdout + out.stderr
    passed("unsubscribe-subscribe storms")
    server.kill()

    choosy = Server(CABLE_ORIGIN="https://app.example")
    client = Client(choosy.port, *room(1), "--origin", "https://other.example")
    client.expect(disconnected("lost", False))
    client.ends(1)
    # Rails lets the configured one in, and the one of its own URL, which is the default.
    for options in (["--origin", "https://app.example"], []):
        client = Client(choosy.port, *room(1), *options)
        client.expect(CONFIRMED)
        client.stop()
    choosy.kill()
    passed("wrong Origin")


def two_servers(work):
    redis_port, front = free_port(), free_port()
    redis = subprocess.Popen(
        ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", work],
        stdout=subprocess.DEVNULL,
    )
    settings = {"CABLE_ADAPTER": "redis", "REDIS_URL": f"redis://127.0.0.1:{redis_port}/1"}
    servers = [Server(**settings), Server(**settings)]
    nginx = subprocess.Popen([HERE / "nginx", work, str(front), *(str(server.port) for server in servers)])
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", front)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        # nginx deals them out in turn.
        clients = [Client(front, *room(7)) for _ in range(4)]
        for client in clients:
            client.expect(CONFIRMED)
        for number, server in enumerate(servers):
            server.broadcast("chat_7", number)
            for client in clients:
                client.expect(message(number))
        passed("a message that is broadcast on one server reaches the clients of the other")

        servers[0].kill()
        servers[1].broadcast("chat_7", "alive")
        moved = 0
        for client in clients:
            event = client.next()
            if event["event"] == "disconnected":
                moved += 1
                client.until(CONFIRMED)
                client.expect(GAP)
            else:
                assert event == message("alive"), event
        assert 0 < moved < len(clients), f"{moved} clients were on the server that was killed"
        servers[1].broadcast("chat_7", "moved")
        for client in clients:
            client.until(message("moved"))
            client.stop()
        passed(f"{moved} clients of a killed server moved to the other, their subscriptions too")
    finally:
        nginx.terminate()
        redis.terminate()
        servers[1].kill()


with tempfile.TemporaryDirectory() as work:
    one_server()
    two_servers(work)
