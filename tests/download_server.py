"""A server of our own for downloads, which can fail in many ways."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serve content by path: with or without ranges, truncated, changed, or not at all."""

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.ranges, self.cut, self.tag, self.told_length = True, [], '"one"', None
        self.asked = []  # (path, Range)
        self.style = "length"  # "chunked", or "none": the end of the connection is that of the file

    def handle_error(self, request, client_address):
        """Ignore clients that disconnect, which these tests provoke."""

    def url(self, name="a.bin"):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server, asked = self.server, self.headers.get("Range")
        server.asked.append((self.path, asked))
        content = server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        start = 0
        if asked and server.ranges and self.headers.get("If-Range", server.tag) == server.tag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                return self.end_headers()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        length = server.told_length or len(content) - start
        if server.style == "length":
            self.send_header("Content-Length", str(length))
        elif server.style == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        end = server.cut.pop(0) if server.cut else len(content)
        if server.style == "chunked":
            self.wfile.write(b"%x\r\n%b\r\n" % (end - start, content[start:end]))
            content = b"0\r\n\r\n" if end == len(content) else b""
            start, end = 0, None
        self.wfile.write(content[start:end])


@contextlib.contextmanager
def serving(files):
    """Serve files by path."""
    with Server(files) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()
