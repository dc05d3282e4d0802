"""R109: a client that slept notices at once whether its connection still stands.

usage: sleep.py TOOL
"""

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from clients import SLACK, Connect, Server, check_books, fail

PING_INTERVAL = 2
"""Seconds; a machine that stalls for so long looks like a server that is gone."""


async def main(tool):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder, "books"))
        await server.start()
        url = f"ws://127.0.0.1:{server.port}{Connect.path}"
        try:
            async with Connect(tool, url, "--ping-interval", str(PING_INTERVAL)) as client:
                await client.wait_for("open", 1)
                sender = asyncio.ensure_future(client.send_lines(0.05))
                # It sleeps for longer than a ping and its deadline together, from different moments between two pings.
                for turn in range(5):
                    await asyncio.sleep(PING_INTERVAL * (1 + turn / 5))
                    client.process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(4 * PING_INTERVAL)
                    client.process.send_signal(signal.SIGCONT)
                    await client.wait_for_answer()
                if client.count("end") != 0:
                    fail("a connection that stood was given up after a sleep")

                # The server is gone meanwhile, and frozen so that nothing tells of it.
                server.process.send_signal(signal.SIGSTOP)
                client.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(4 * PING_INTERVAL)
                woken = time.monotonic()
                client.process.send_signal(signal.SIGCONT)
                seconds = await client.wait_for("end", 1) - woken
                if seconds > 2 * PING_INTERVAL + SLACK:
                    fail(f"a dead connection was noticed {seconds:.1f} s after a sleep")
                server.process.send_signal(signal.SIGCONT)
                await client.wait_for("open", 2)
                await client.wait_for_answer()
                sender.cancel()
                await client.finish()
                check_books(client, server)
                print(f"a connection that stands outlives a sleep; a dead one was noticed {seconds:.1f} s after it")
        finally:
            await server.stop(signal.SIGKILL)


asyncio.run(main(sys.argv[1]))
