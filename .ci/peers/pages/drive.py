"""Drives the pages of `websocket quotes serve` and `websocket chat serve` in headless Chromium.

Prices move, an unknown product is told; a message of a Swift client arrives, and one of the page's arrives there; both
pages come back after their server was restarted.

usage: drive.py TOOL [DIRECTORY-FOR-SCREENSHOTS]
"""

import asyncio
import base64
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import websockets

TOOL = sys.argv[1]
SCREENSHOTS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
PATIENCE = 240


class Server:
    """A server of the tool's, which comes back on the same port."""

    def __init__(self, *words):
        self.words = words
        self.start("0")

    def start(self, port):
        self.process = subprocess.Popen(
            [TOOL, *self.words, "--port", port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self.process.stdout.readline().strip()
        self.port = self.url.rstrip("/").rsplit(":", 1)[1]

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def restart(self):
        self.start(self.port)


class Page:
    """A tab, over the DevTools protocol."""

    def __init__(self, socket):
        self.socket = socket
        self.ids = itertools.count(1)

    async def call(self, method, **parameters):
        number = next(self.ids)
        await self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(await self.socket.recv())
            if answer.get("id") == number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    async def value(self, expression):
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def until(self, what, condition):
        """Waits until a condition holds in the page."""
        holds = await self.value(
            "new Promise(resolve => { const end = Date.now() + %d; (function look() {"
            " if (%s) resolve(true); else if (Date.now() > end) resolve(false); else setTimeout(look, 50); })(); })"
            % (PATIENCE * 1000, condition)
        )
        if not holds:
            raise SystemExit(f"not seen in the page: {what}")
        print(f"  {what}")

    async def open(self, url):
        await self.call("Page.enable")
        await self.call("Emulation.setDeviceMetricsOverride", width=900, height=700, deviceScaleFactor=1, mobile=False)
        await self.call("Page.navigate", url=url.replace("ws", "http", 1))
        await self.until("the page is loaded", "document.readyState === 'complete' && location.protocol === 'http:'")

    async def picture(self, name):
        if SCREENSHOTS:
            result = await self.call("Page.captureScreenshot", format="png")
            (SCREENSHOTS / name).write_bytes(base64.b64decode(result["data"]))


STATE = "document.getElementById('state-text').textContent"
PRICES = "[...document.querySelectorAll('.price')].map(cell => cell.textContent)"


async def moved(page, what):
    before = await page.value(f"JSON.stringify({PRICES})")
    await page.until(what, f"JSON.stringify({PRICES}) !== {json.dumps(before)}")


async def quotes(page):
    server = Server("quotes", "serve", "--interval", "0.1")
    try:
        await page.open(server.url)
        await page.until("three products have prices", f"{PRICES}.filter(price => +price > 0).length === 3")
        for _ in range(5):
            await moved(page, "prices move")
        await page.value("document.getElementById('add').requestSubmit()")
        await page.until("a fourth product has a price", f"{PRICES}.filter(price => +price > 0).length === 4")
        await page.value("document.getElementById('product').value = 'none'")
        await page.value("document.getElementById('add').requestSubmit()")
        await page.until(
            "an unknown product is told", "document.getElementById('note').textContent === 'There is no product none.'"
        )
        await page.until(
            "each product has a chart of ten prices",
            "[...document.querySelectorAll('polyline')].filter(line => line.getAttribute('points').split(' ').length"
            " >= 10).length === 4",
        )
        await page.picture("quotes.png")
        server.stop()
        await page.until("the loss is told", f"{STATE} === 'Connection lost, trying again'")
        server.restart()
        await page.until("the page is connected again", f"{STATE} === 'Connected'")
        await moved(page, "prices move again")
    finally:
        server.stop()


async def chat(page):
    server = Server("chat", "serve")
    client = None
    try:
        await page.open(server.url)
        await page.until("the page is connected", f"{STATE} === 'Connected'")
        client = await asyncio.create_subprocess_exec(
            TOOL, "chat", "--name", "Ada", server.url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        for round_, words in enumerate(["hello from Swift", "back again"]):
            client.stdin.write(f"{words}\n".encode())
            await page.until(
                "a message of the Swift client's is there",
                "[...document.querySelectorAll('#log li')].some(item => item.textContent === 'Ada' + %s)"
                % json.dumps(words),
            )
            text = f"hello <b>{round_}</b>"
            await page.value(f"document.getElementById('text').value = {json.dumps(text)}")
            await page.value("document.getElementById('say').requestSubmit()")
            await page.until(
                "the page's own message is there, as text",
                "[...document.querySelectorAll('#log li.own')].some(item => item.textContent === 'Guest' + %s)"
                % json.dumps(text),
            )
            while (line := (await asyncio.wait_for(client.stdout.readline(), PATIENCE)).decode()) != f"Guest: {text}\n":
                if not line:
                    raise SystemExit("the Swift client ended")
            print("  the Swift client has the page's message")
            if round_ == 0:
                await page.picture("chat.png")
                server.stop()
                await page.until("the loss is told", f"{STATE} === 'Connection lost, trying again'")
                server.restart()
                await page.until("the page is connected again", f"{STATE} === 'Connected'")
    finally:
        if client:
            with contextlib.suppress(ProcessLookupError):
                client.terminate()
            await client.wait()
        server.stop()


async def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            place = pathlib.Path(profile, "DevToolsActivePort")
            while not (place.exists() and len(place.read_text().splitlines()) == 2):
                await asyncio.sleep(0.05)
            port = place.read_text().splitlines()[0]
            tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list"))
            tab = next(tab for tab in tabs if tab["type"] == "page")
            async with websockets.connect(tab["webSocketDebuggerUrl"], max_size=None, ping_interval=None) as socket:
                page = Page(socket)
                print("quotes")
                await quotes(page)
                print("chat")
                await chat(page)
        finally:
            browser.terminate()
            browser.wait()


asyncio.run(main())
