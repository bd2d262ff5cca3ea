"""A server on this machine that answers well or badly, as it is told."""

import contextlib
import http.server
import threading
import time

import pytest


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives ``server.files``; what ``server.mood`` says, the next answer does instead."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        mood = self.server.moods.pop(0) if self.server.moods else "good"
        if mood.startswith("redirect "):
            self.send_response(302)
            self.send_header("Location", mood.removeprefix("redirect "))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = self.server.files.get(self.path)
        if data is None or mood == "missing":
            self.send_error(404)
            return
        start, status = self.range(data), 200
        if start == len(data):
            self.send_error(416)
            return
        if start:
            status = 206
        if mood == "corrupt":
            data = bytes(len(data))
        self.send_response(status)
        self.send_header("ETag", self.server.etag)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if mood != "of unknown size":
            self.send_header("Content-Length", str(len(data) - start))
        else:
            self.close_connection = True
        self.end_headers()
        self.send(data[start:], mood)

    def send(self, data, mood):
        if mood == "truncated":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif mood == "slow":
            self.wfile.write(data[:10])
            self.wfile.flush()
            time.sleep(1.0)
            self.close_connection = True
        elif mood == "dripping":
            self.drip(data)
        else:
            self.wfile.write(data)

    def drip(self, data):
        """Sends a byte now and then, until nobody listens or it is enough."""
        with contextlib.suppress(OSError):
            for value in data[:500]:
                self.wfile.write(bytes([value]))
                self.wfile.flush()
                time.sleep(0.01)
        self.close_connection = True

    def range(self, data):
        """Where the wanted part begins; 0 where the file has changed since."""
        wanted = self.headers.get("Range")
        if wanted is None or self.headers.get("If-Range") != self.server.etag:
            return 0
        return min(int(wanted.removeprefix("bytes=").removesuffix("-")), len(data))

    def log_message(self, *_):
        """Says nothing."""


@contextlib.contextmanager
def serving():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.moods, server.asked, server.etag = {}, [], [], '"one"'
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server():
    with serving() as running:
        yield running
