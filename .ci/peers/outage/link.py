"""A client and a server in two network namespaces, and the link between them taken down and up.

usage: link.py TOOL
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clients import SLACK, Connect, Server, check_books, fail

SECONDS_TO_NOTICE = 4
HERE, THERE = f"ws-client-{os.getpid()}", f"ws-server-{os.getpid()}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def build():
    """Two namespaces and a link; the reason where the machine does not allow that."""
    try:
        for namespace in (HERE, THERE):
            ip("netns", "add", namespace)
        ip("-n", HERE, "link", "add", "name", "wire", "type", "veth", "peer", "name", "wire", "netns", THERE)
        for namespace, address in ((HERE, "10.91.0.1/30"), (THERE, "10.91.0.2/30")):
            ip("-n", namespace, "address", "add", address, "dev", "wire")
            ip("-n", namespace, "link", "set", "wire", "up")
        return None
    except FileNotFoundError:
        return "there is no ip command"
    except subprocess.CalledProcessError as error:
        return error.stderr.strip()


async def main(tool):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder, "books"), host="10.91.0.2", port=8080, prefix=["ip", "netns", "exec", THERE])
        await server.start()
        try:
            async with Connect(
                tool, f"ws://10.91.0.2:8080{Connect.path}", "--ping-interval", str(SECONDS_TO_NOTICE / 2),
                "--connect-timeout", "5", prefix=["ip", "netns", "exec", HERE]
            ) as client:
                await client.wait_for("open", 1)
                sender = asyncio.ensure_future(client.send_lines(0.05))
                await client.wait_for_answer()
                ip("-n", THERE, "link", "set", "wire", "down")
                down = time.monotonic()
                seconds = await client.wait_for("end", 1) - down
                # Some attempts fail before the link comes back.
                await client.wait_for("wait", 2)
                ip("-n", THERE, "link", "set", "wire", "up")
                await client.wait_for("open", 2)
                await client.wait_for_answer()
                sender.cancel()
                await client.finish()
                check_books(client, server)
                if seconds > SECONDS_TO_NOTICE + SLACK:
                    fail(f"the loss was noticed after {seconds:.1f} s")
                print(f"a link that is down was noticed after {seconds:.1f} s, and the session came back with it")
        finally:
            await server.stop(signal.SIGKILL)


reason = build()
try:
    if reason:
        print(f"link down and up between network namespaces: skipped, {reason}")
    else:
        asyncio.run(main(sys.argv[1]))
finally:
    for namespace in (HERE, THERE):
        subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)
