"""Downloads from a real HTTP server on loopback: whole, cut, missing, wrong, slow, two at once."""

import http.server
import subprocess
import sys
import threading
import time
import zipfile

import pytest

from fgw_jax.datasets import download, load
from fgw_jax.errors import DataError

FILES = {
    "TINY_A.txt": "1, 2\n2, 3\n4, 5\n",
    "TINY_graph_indicator.txt": "1\n1\n1\n2\n2\n",
    "TINY_graph_labels.txt": "0\n1\n",
}


@pytest.fixture(scope="module")
def tiny_zip(tmp_path_factory):
    path = tmp_path_factory.mktemp("publisher") / "TINY.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(f"TINY/{name}", text)
    return path.read_bytes()


class Publisher(http.server.BaseHTTPRequestHandler):
    """Serves ``server.content`` in the manner that the path asks for, and counts the requests."""

    def do_GET(self):
        self.server.requests.append(self.path)
        content, manner = self.server.content, self.path.strip("/").split("/")[0]
        if manner == "missing":
            self.send_error(404)
            return
        if manner == "troubled" and self.server.requests.count(self.path) < 2:
            self.send_error(503)
            return
        if manner == "wrong":
            content = b"<html>Please log in</html>"
        self.send_response(200)
        if manner != "unsized":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if manner in ("cut", "unsized"):
            self.wfile.write(content[: len(content) // 2])
        elif manner == "slow":
            for start in range(0, len(content), 100):
                self.wfile.write(content[start : start + 100])
                self.wfile.flush()
                time.sleep(0.05)
        elif manner == "stalled":
            self.wfile.write(content[:10])
            self.wfile.flush()
            self.server.stop.wait(20)
        else:
            self.wfile.write(content)

    def log_message(self, *args):
        """Quiet."""


@pytest.fixture
def publisher(tiny_zip, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    server.content, server.requests, server.stop = tiny_zip, [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)


def urls(publisher, *manners):
    return [f"{publisher.url}/{manner}/TINY.zip" for manner in manners]


def test_a_download_is_kept_and_not_asked_for_again(publisher, tmp_path, tiny_zip):
    data = load("TINY", tmp_path / "new" / "folder", urls=urls(publisher, "whole"))
    assert [g.num_nodes for g in data.graphs] == [3, 2]
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["TINY.zip"]
    assert (tmp_path / "new" / "folder" / "TINY.zip").read_bytes() == tiny_zip
    again = load("TINY", tmp_path / "new" / "folder", urls=urls(publisher, "whole"))
    assert again.fingerprint() == data.fingerprint()
    assert len(publisher.requests) == 1


def test_the_cache_folder_of_the_environment(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("FGW_JAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FGW_JAX_DATA", raising=False)
    load("TINY", urls=urls(publisher, "whole"))
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["TINY.zip"]
    assert len(load("TINY")) == 2
    monkeypatch.delenv("FGW_JAX_CACHE")
    assert download.cache_dir().name == "fgw_jax"
    monkeypatch.setenv("FGW_JAX_DATA", str(tmp_path / "cache"))
    assert len(load("TINY")) == 2
    assert len(publisher.requests) == 1


@pytest.mark.parametrize("manner", ["missing", "wrong", "unsized", "cut"])
def test_the_mirror_helps_out(publisher, tmp_path, manner, no_waiting):
    data = load("TINY", tmp_path, urls=urls(publisher, manner, "whole"))
    assert len(data) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["TINY.zip"]
    # A transfer cut short is tried again; a plain "no" and a bad file are not.
    assert len(publisher.requests) == (4 if manner == "cut" else 2)


def test_a_server_in_trouble_is_asked_again(publisher, tmp_path, no_waiting):
    assert len(load("TINY", tmp_path, urls=urls(publisher, "troubled"))) == 2
    assert len(publisher.requests) == 2


def test_a_slow_server_is_waited_for(publisher, tmp_path):
    assert len(load("TINY", tmp_path, urls=urls(publisher, "slow"), timeout=1)) == 2


@pytest.mark.parametrize(
    ("manners", "named"),
    [
        (("missing",), "404"),
        (("wrong", "unsized"), "not a zip, or cut short"),
        (("cut",), "TINY.zip"),
        (("stalled",), "timed out"),
    ],
)
def test_when_nothing_helps_the_cache_stays_as_it_was(
    publisher, tmp_path, manners, named, no_waiting
):
    (tmp_path / "OTHER.zip").write_bytes(b"kept")
    with pytest.raises(DataError, match=named) as caught:
        load("TINY", tmp_path, urls=urls(publisher, *manners), timeout=0.3)
    message = str(caught.value)
    assert all(url in message for url in urls(publisher, *manners))
    assert f"put TINY.zip into {tmp_path}" in message
    assert ".download-" not in message
    assert [p.name for p in tmp_path.iterdir()] == ["OTHER.zip"]
    assert (tmp_path / "OTHER.zip").read_bytes() == b"kept"


def test_wrong_content_under_a_known_name_is_not_kept(publisher, tmp_path, tiny_zip):
    with zipfile.ZipFile(tmp_path / "renamed.zip", "w") as archive:
        for name, text in FILES.items():
            archive.writestr(f"MUTAG/{name.replace('TINY', 'MUTAG')}", text)
    publisher.content = (tmp_path / "renamed.zip").read_bytes()
    with pytest.raises(DataError, match=r"the content of MUTAG has the fingerprint"):
        load("MUTAG", tmp_path / "cache", urls=urls(publisher, "whole"))
    assert list((tmp_path / "cache").iterdir()) == []
    altered = load("MUTAG", tmp_path / "cache", urls=urls(publisher, "whole"), verify=False)
    assert len(altered) == 2


def test_no_network(tmp_path, no_waiting):
    with http.server.HTTPServer(("127.0.0.1", 0), Publisher) as server:
        port = server.server_port
    with pytest.raises(DataError, match="ConnectionError"):  # nobody listens there now
        load("TINY", tmp_path, urls=[f"http://127.0.0.1:{port}/TINY.zip"])
    with pytest.raises(DataError, match="did you mean PROTEINS"):
        load("PROTEIN", tmp_path, urls=["http://nowhere.invalid/PROTEIN.zip"])
    assert list(tmp_path.iterdir()) == []


def test_file_addresses(tmp_path, tiny_zip, no_waiting):
    (tmp_path / "copy.zip").write_bytes(tiny_zip)
    url = (tmp_path / "copy.zip").as_uri()
    assert len(load("TINY", tmp_path / "cache", urls=url)) == 2
    with pytest.raises(DataError, match="FileNotFoundError"):
        load("OTHER", tmp_path / "cache", urls=[f"{url}.gone"])


def test_a_folder_that_cannot_be_written_to(publisher, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="not a folder"):
        load("TINY", tmp_path / "file", urls=urls(publisher, "whole"))
    with pytest.raises(DataError, match="cannot be written to"):
        load("TINY", tmp_path / "file" / "below", urls=urls(publisher, "whole"))


@pytest.mark.slow
def test_two_processes_at_once(publisher, tmp_path, tiny_zip):
    program = (
        "import sys; from fgw_jax.datasets import load; "
        "print(load('TINY', sys.argv[1], urls=[sys.argv[2]]).fingerprint())"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *urls(publisher, "slow")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], results
    assert results[0][0] == results[1][0] != ""
    assert [p.name for p in tmp_path.iterdir()] == ["TINY.zip"]
    assert (tmp_path / "TINY.zip").read_bytes() == tiny_zip
