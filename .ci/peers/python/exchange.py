"""Exchanges messages, pings and closes between the tool's `connect --json` and two Python servers.

usage: exchange.py TOOL
"""

import asyncio
import base64
import json
import signal
import sys

import aiohttp
from aiohttp import web
import websockets
from websockets.asyncio.server import serve

TOOL = sys.argv[1]
SECONDS = 240
TEXTS = ["hello", "", "é 😀 κόσμε", "x" * 125, "x" * 126, "y" * 65_535, "y" * 65_536, "z" * (1 << 20)]
BINARIES = [bytes(i * 7 % 256 for i in range(n)) for n in (0, 1, 125, 126, 65_535, 65_536, 1 << 20)]


class Websockets:
    """The server of the package `websockets`, which can send fragments."""

    name, fragments = "websockets " + websockets.__version__, True

    async def __aenter__(self):
        self.server = await serve(
            self.handle, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None,
            select_subprotocol=lambda _, offered: "chat" if "chat" in offered else None,
        )
        return f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/"

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def handle(self, connection):
        async for message in connection:
            if message == "command: fragments":
                await connection.send(["frag", "", "mented é"])
            elif message == "command: ping":
                await (await connection.ping(b"\x00\xffpayload"))
                await connection.send("pong came")
            elif message == "command: close":
                await connection.close(4001, "bye é")
                return
            else:
                await connection.send(message)


class Aiohttp:
    """The server of the package `aiohttp`."""

    name, fragments = "aiohttp " + aiohttp.__version__, False

    async def __aenter__(self):
        application = web.Application()
        application.router.add_get("/", self.handle)
        self.runner = web.AppRunner(application)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}/"

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    async def handle(self, request):
        connection = web.WebSocketResponse(autoping=False, protocols=["chat"], compress=False, max_msg_size=0)
        await connection.prepare(request)
        is_waiting = must_close = False
        async for message in connection:
            if message.type == web.WSMsgType.PING:
                await connection.pong(message.data)
            elif message.type == web.WSMsgType.PONG:
                is_waiting = False
                if message.data == b"\x00\xffpayload":
                    await connection.send_str("pong came")
            elif message.type == web.WSMsgType.BINARY:
                await connection.send_bytes(message.data)
            elif message.data == "command: ping":
                is_waiting = True
                await connection.ping(b"\x00\xffpayload")
            elif message.data == "command: close":
                must_close = True
            elif message.type == web.WSMsgType.TEXT:
                await connection.send_str(message.data)
            # The tool sends its lines at once: its pong may come behind the command to close.
            if must_close and not is_waiting:
                await connection.close(code=4001, message="bye é".encode())
        return connection


def expect(found, expected):
    """Ends the run where the two differ, with what is at the first difference of two lists."""
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list):
        same = next((at for at, (one, other) in enumerate(zip(found, expected)) if one != other), None)
        at = min(len(found), len(expected)) if same is None else same
        found, expected = found[at:][:3], expected[at:][:3]
    raise SystemExit(f"found    {str(found)[:500]}\nexpected {str(expected)[:500]}")


async def connect(url, *options, lines=(), signal_at=None):
    """Runs the tool; its events, without those that a scenario does not ask for, and its exit status."""
    process = await asyncio.create_subprocess_exec(
        TOOL, "connect", "--json", *options, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=64 << 20,
    )
    events = []

    async def write():
        for line in lines:
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()
        if signal_at is None:
            process.stdin.close()

    async def read():
        while line := await process.stdout.readline():
            events.append(json.loads(line))
            # Once: a signal to a process that has ended would take its exit status away from the wait below.
            if [event["event"] for event in events] == signal_at:
                process.send_signal(signal.SIGTERM)

    await asyncio.wait_for(asyncio.gather(write(), read()), SECONDS)
    return events, await asyncio.wait_for(process.wait(), SECONDS)


def close(code, reason, by):
    return {"event": "close", "code": code, "reason": reason, "clean": True, "by": by}


async def exchange(server):
    async with server as url:
        # Text, fragments, a ping of the server's, and its close.
        commands = ["command: fragments"] if server.fragments else []
        events, status = await connect(
            url, "--count", "1000", lines=[*TEXTS, *commands, "command: ping", "command: close"])
        expect(events.pop(0)["status"], 101)
        ping = {"event": "ping", "base64": base64.b64encode(b"\x00\xffpayload").decode()}
        answers = [*TEXTS, *(["fragmented é"] if commands else []), ping, "pong came"]
        texts = [{"event": "text", "data": answer} if isinstance(answer, str) else answer for answer in answers]
        # The ping is told when it is read, though messages before it may still wait for their receive.
        place = texts.index(ping)
        if ping in events[:place]:
            events.remove(ping)
            events.insert(place, ping)
        expect(events, [*texts, close(4001, "bye é", "peer")])
        expect(status, 0)

        # Binary, a subprotocol, and a close of the tool's.
        lines = [base64.b64encode(binary).decode() for binary in BINARIES]
        events, status = await connect(
            url, "--binary", "--subprotocol", "other", "--subprotocol", "chat", "--count", str(len(lines)), lines=lines)
        expect(events.pop(0)["subprotocol"], "chat")
        expect(events, [*({"event": "binary", "base64": line} for line in lines), close(1000, "", "local")])
        expect(status, 0)

        # Pings of the tool's, until a signal ends it.
        events, status = await connect(url, "--ping-interval", "0.05", signal_at=["open", "pong", "pong", "pong"])
        expect([event["event"] for event in events][:4], ["open", "pong", "pong", "pong"])
        expect([event["rttMicroseconds"] is not None for event in events[1:4]], [True] * 3)
        expect(events[-1], close(1000, "", "local"))
        expect(status, 0)
    print(f"{server.name}: text, binary, pings and closes in both directions"
          + (", fragments" if server.fragments else ""))


async def main():
    for server in (Websockets(), Aiohttp()):
        await exchange(server)


asyncio.run(main())
