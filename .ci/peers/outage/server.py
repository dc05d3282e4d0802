"""A server of Python's websockets that sends back what it gets, and keeps books.

usage: server.py HOST PORT BOOKS

Each message is a line of the file BOOKS, with the path and the number of its connection; the line is there before the
answer is sent.
"""

import asyncio
import contextlib
import itertools
import json
import signal
import sys
import time

from websockets import ConnectionClosed
from websockets.asyncio.server import serve


async def main(host, port, path):
    numbers = itertools.count()
    with open(path, "a", buffering=1) as books:

        async def handle(connection):
            # Numbers rise from one process to the next as well.
            number = f"{time.time():.6f}-{next(numbers)}"
            with contextlib.suppress(ConnectionClosed):
                async for message in connection:
                    print(json.dumps([connection.request.path, number, message]), file=books)
                    await connection.send(message)

        stop = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: stop.done() or stop.set_result(None))
        async with serve(handle, host, int(port), ping_interval=None, close_timeout=1):
            print("listening", flush=True)
            await stop


asyncio.run(main(*sys.argv[1:]))
