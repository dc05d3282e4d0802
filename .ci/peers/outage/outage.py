"""Two clients behind haproxy, and a server that is restarted, frozen and away.

usage: outage.py TOOL
"""

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from clients import SLACK, Chat, Connect, Server, check_books, fail, free_port

RESTARTS = 20
UPTIME = 5.5
"""Seconds after which a connection counts as one that lasted, and the waits begin anew."""
SECONDS_TO_NOTICE = 2
"""The clients ping each second, and wait a second for the answer."""


def configuration(port, server_port):
    return f"""
global
  maxconn 200
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
  retries 0
frontend clients
  bind 127.0.0.1:{port}
  default_backend servers
backend servers
  http-error status 503 content-type text/plain string "away" hdr Retry-After 1
  server one 127.0.0.1:{server_port}
"""


async def restart(server, clients):
    opened = [client.count("open") for client in clients]
    for turn in range(RESTARTS):
        # In turn the server says good-bye, and is gone.
        await server.stop(signal.SIGTERM if turn % 2 else signal.SIGKILL)
        await server.start()
        await asyncio.gather(*(client.wait_for("open", count + turn + 1) for client, count in zip(clients, opened)))
        await asyncio.gather(*(client.wait_for_answer() for client in clients))
        await asyncio.sleep(UPTIME)
    print(f"the server was restarted {RESTARTS} times")


async def freeze(server, clients):
    ends = [client.count("end") for client in clients]
    opened = [client.count("open") for client in clients]
    server.process.send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    noticed = await asyncio.gather(*(client.wait_for("end", count + 1) for client, count in zip(clients, ends)))
    server.process.send_signal(signal.SIGCONT)
    await asyncio.gather(*(client.wait_for("open", count + 1) for client, count in zip(clients, opened)))
    await asyncio.gather(*(client.wait_for_answer() for client in clients))
    seconds = max(noticed) - frozen
    if seconds > SECONDS_TO_NOTICE + SLACK:
        fail(f"a frozen server was noticed after {seconds:.1f} s")
    print(f"a frozen server was noticed after {seconds:.1f} s")
    await asyncio.sleep(UPTIME)


async def refuse(server, clients):
    errors = [client.count("error") for client in clients]
    opened = [client.count("open") for client in clients]
    await server.stop(signal.SIGKILL)
    await asyncio.gather(*(client.wait_for("error", count + 3) for client, count in zip(clients, errors)))
    await server.start()
    await asyncio.gather(*(client.wait_for("open", count + 1) for client, count in zip(clients, opened)))
    await asyncio.gather(*(client.wait_for_answer() for client in clients))
    for client in clients:
        client.check_waits(1_000)
        if not any(name == "error" and status == 503 for name, status, _ in client.events):
            fail(f"{client.name} was never refused with 503")
    print("refusals with 503 and Retry-After were left alone so long")


async def main(tool):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder, "books"))
        port = free_port()
        file = Path(folder, "haproxy.cfg")
        file.write_text(configuration(port, server.port))
        await server.start()
        proxy = await asyncio.create_subprocess_exec("haproxy", "-db", "-f", str(file), stderr=asyncio.subprocess.DEVNULL)
        try:
            url = f"ws://127.0.0.1:{port}"
            options = ["--ping-interval", "1"]
            async with Connect(tool, url + Connect.path, *options) as one, Chat(tool, url + Chat.path, *options) as two:
                clients = [one, two]
                await asyncio.gather(*(client.wait_for("open", 1) for client in clients))
                senders = [asyncio.ensure_future(client.send_lines(0.05)) for client in clients]
                await asyncio.sleep(UPTIME)
                await restart(server, clients)
                await freeze(server, clients)
                await refuse(server, clients)
                for sender in senders:
                    sender.cancel()
                for client in clients:
                    await client.finish()
                    check_books(client, server)
        finally:
            proxy.terminate()
            await proxy.wait()
            await server.stop(signal.SIGKILL)


asyncio.run(main(sys.argv[1]))
