"""The tool's two clients that connect again, fed with numbered lines, and what they tell."""

import asyncio
import json
import re
import socket
import sys
import time
from pathlib import Path

SECONDS = 240
"""How long anything may take on a slow machine."""
SLACK = 30
"""How much later than its clock says a client may notice a loss there; TCP itself takes a quarter of an hour."""


def fail(text):
    raise SystemExit(f"failed: {text}")


def free_port(host="127.0.0.1"):
    with socket.socket() as listener:
        listener.bind((host, 0))
        return listener.getsockname()[1]


class Client:
    """A client's process; its lines become events: open, end, wait and status in `events`, answers in `answers`."""

    def __init__(self, tool, url, *options, prefix=()):
        self.command = [*prefix, tool, *self.subcommand, *options, url]
        self.events, self.answers, self.unsent = [], [], set()
        self.sent = 0
        self.changed = asyncio.Condition()

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE)
        self.tasks = [asyncio.ensure_future(self.read(self.process.stdout, self.hear_output)),
                      asyncio.ensure_future(self.read(self.process.stderr, self.hear_error))]
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await asyncio.gather(*self.tasks)

    async def read(self, stream, hear):
        while line := (await stream.readline()).decode():
            async with self.changed:
                hear(line.rstrip("\n"))
                self.changed.notify_all()

    def note(self, event, value=None):
        self.events.append((event, value, time.monotonic()))

    def hear_unsent(self, line):
        if match := re.search(r"\bm(\d{6})\b", line):
            self.unsent.add(int(match[1]))

    def count(self, event):
        return sum(name == event for name, _, _ in self.events)

    async def wait(self, what, condition):
        try:
            async with asyncio.timeout(SECONDS), self.changed:
                await self.changed.wait_for(condition)
        except TimeoutError:
            fail(f"{self.name}: {what}; the last events: {self.events[-5:]}")

    async def wait_for(self, event, count):
        """Waits until that many such events have come; the last one's time."""
        await self.wait(f"event {count} of {event}", lambda: self.count(event) >= count)
        return [at for name, _, at in self.events if name == event][count - 1]

    async def wait_for_answer(self):
        """Waits for the answer to a line that is sent from now on."""
        first = self.sent + 1
        await self.wait(f"an answer from m{first:06} on", lambda: self.answers and self.answers[-1] >= first)

    async def send_lines(self, seconds):
        """Sends numbered lines, one each so many seconds, until it is cancelled."""
        while True:
            self.sent += 1
            self.process.stdin.write(f"m{self.sent:06}\n".encode())
            await self.process.stdin.drain()
            await asyncio.sleep(seconds)

    async def finish(self):
        """The end of the input: the client closes and succeeds."""
        self.process.stdin.close()
        status = await asyncio.wait_for(self.process.wait(), SECONDS)
        await asyncio.gather(*self.tasks)
        if status != 0:
            fail(f"{self.name} ended with status {status}")

    def check_waits(self, least):
        """After each answer 503 the wait is at least that many milliseconds."""
        for (name, status, _), (following, delay, _) in zip(self.events, self.events[1:]):
            if name == "error" and status == 503 and (following != "wait" or delay < least):
                fail(f"{self.name}: after 503 came {following} {delay}")


class Connect(Client):
    """`websocket connect --reconnect --json`."""

    name, path = "connect", "/connect"
    subcommand = ["connect", "--json", "--reconnect"]

    def hear_output(self, line):
        event = json.loads(line)
        match event["event"]:
            case "open": self.note("open")
            case "close": self.note("end", event["code"])
            case "error": self.note("error", event["status"] or event["case"])
            case "reconnecting": self.note("wait", event["delayMilliseconds"])
            case "text": self.answers.append(int(event["data"][1:]))

    def hear_error(self, line):
        self.hear_unsent(line)


class Chat(Client):
    """`websocket chat URL`."""

    name, path = "chat", "/chat"
    subcommand = ["chat"]

    def hear_output(self, line):
        self.answers.append(int(line.partition(": ")[2][1:]))

    def hear_error(self, line):
        if match := re.fullmatch(r"attempt \d+ follows in (\d+) ms", line):
            self.note("wait", int(match[1]))
        elif line == "connected":
            self.note("open")
        elif line.startswith(("not sent: ", "in doubt: ")):
            self.hear_unsent(line)
        elif line.startswith(("closed", "ended", "the connection")):
            self.note("end", line)
        elif line != "stopped":
            self.note("error", 503 if "503" in line else line)


class Server:
    """The server's process, which may be killed, frozen and started again."""

    def __init__(self, books, host="127.0.0.1", port=None, prefix=()):
        self.books, self.host, self.port, self.prefix = books, host, port or free_port(), prefix
        self.process = None

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            *self.prefix, sys.executable, str(Path(__file__).with_name("server.py")), self.host, str(self.port),
            str(self.books), stdout=asyncio.subprocess.PIPE)
        await asyncio.wait_for(self.process.stdout.readline(), SECONDS)

    async def stop(self, signal):
        if self.process and self.process.returncode is None:
            self.process.send_signal(signal)
            await asyncio.wait_for(self.process.wait(), SECONDS)

    def got(self, client):
        """What the server got from a client: the numbers of each connection, the connections in order."""
        connections = {}
        for line in self.books.read_text().splitlines():
            path, connection, message = json.loads(line)
            if path == client.path:
                if message.startswith("{"):
                    message = json.loads(message)["content"]
                connections.setdefault(connection, []).append(int(message[1:]))
        return [numbers for _, numbers in sorted(connections.items())]


def check_books(client, server):
    """Order is kept, nothing comes twice, what was acknowledged was got, and what is missing is missing at a loss or was
    reported."""
    connections = server.got(client)
    flat = [number for numbers in connections for number in numbers]
    if flat != sorted(set(flat)):
        fail(f"{client.name}: the server got lines twice or out of order")
    if client.answers != sorted(set(client.answers)):
        fail(f"{client.name}: answers came twice or out of order")
    if lost := set(client.answers) - set(flat):
        fail(f"{client.name}: acknowledged, and not in the server's books: {sorted(lost)}")
    for numbers in connections:
        gaps = set(range(numbers[0], numbers[-1] + 1)) - set(numbers) - client.unsent
        if gaps:
            fail(f"{client.name}: lost on a connection that stood: {sorted(gaps)}")
    missing = set(range(1, client.sent + 1)) - set(flat)
    silent = len(missing - client.unsent)
    print(f"{client.name}: {client.sent} lines on {client.count('open')} connections, {len(client.answers)} "
          f"acknowledged, {len(missing & client.unsent)} missing and reported, {silent} written to a connection "
          f"that broke")
