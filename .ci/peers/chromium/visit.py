"""Opens the page beside this file in headless Chromium and waits for its report.

usage: visit.py WEBSOCKET-URL
"""

import http.server
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import urllib.parse

reports = queue.Queue()
page = (pathlib.Path(__file__).parent / "page.html").read_bytes()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(page if self.path.startswith("/?") else b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(b"")
        reports.put(body)

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    browser = subprocess.Popen(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         f"--user-data-dir={profile}",
         f"http://127.0.0.1:{server.server_port}/?socket={urllib.parse.quote(sys.argv[1])}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        failure = reports.get(timeout=240)
    except queue.Empty:
        failure = "no report"
    finally:
        browser.terminate()
        browser.wait()
if failure:
    raise SystemExit(f"Chromium: {failure}")
print("Chromium: text and binary of every length class came back, and the close was clean")
