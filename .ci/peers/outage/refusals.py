"""R101: a reset, a refused attempt and one that hangs leave nothing behind: the next attempt opens.

usage: refusals.py TOOL
"""

import asyncio
import base64
import hashlib
import socket
import struct
import sys

from clients import SECONDS, Connect, fail, free_port


def listen(port, backlog=16):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(backlog)
    listener.setblocking(False)
    return listener


async def open_one(listener):
    """Accepts a connection and answers its opening handshake."""
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(listener)
    request = b""
    while b"\r\n\r\n" not in request:
        request += await loop.sock_recv(connection, 4_096)
    key = next(line[18:].strip() for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    await loop.sock_sendall(
        connection, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    return connection


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def main(tool):
    port = free_port()
    listener = listen(port)
    async with Connect(tool, f"ws://127.0.0.1:{port}/", "--connect-timeout", "3") as client:
        connection = await asyncio.wait_for(open_one(listener), SECONDS)
        await client.wait_for("open", 1)
        # A reset; nobody listens then.
        listener.close()
        reset(connection)
        await client.wait_for("end", 1)
        await client.wait_for("error", 1)
        # Somebody listens and accepts nothing: the backlog is full, and an attempt hangs.
        listener = listen(port, backlog=0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        await client.wait("an attempt that hangs", lambda: ("error", "timedOut") in [e[:2] for e in client.events])
        for filler in fillers:
            filler.close()
        listener.close()
        # A server again.
        listener = listen(port)
        connection = await asyncio.wait_for(open_one(listener), SECONDS)
        await client.wait_for("open", 2)
        connection.close()
    listener.close()
    causes = [value for name, value, _ in client.events if name == "error"]
    if "unreachable" not in causes:
        fail(f"no attempt was refused: {causes}")
    print("a reset, a refused attempt and one that hangs leave nothing behind")


asyncio.run(main(sys.argv[1]))
