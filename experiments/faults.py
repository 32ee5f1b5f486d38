"""Fault injection: files survive killed processes and concurrent writers.

    python -m experiments.faults --kills=50 --processes=8

Processes are killed by SIGKILL at random moments while they download (from a slow server on
loopback), write to the cache of augmented graphs, save checkpoints and append results. After each
kill, everything a process had reported as done must exist (otherwise it counts as lost), and every
file must be complete (otherwise torn). Then --processes processes do each of these concurrently on
the same files. Temporary files of killed processes must be removed in the end.
"""

from __future__ import annotations

import contextlib
import http.server
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.robustness.crash_workers import KINDS, SHARED, Outcome, archive, look, together
from fgw_jax.protocol import results
from fgw_jax.runtime import files

#: time a kill waits at most once its process is at work, seconds
PATIENCE = 0.3


def kill(kind: str, count: int, seed: int, folder: Path) -> Outcome:
    """Kill ``count`` processes that write the same files, check after each, then let one finish."""
    context, rng = _context(), np.random.default_rng(seed)
    outcome, start = Outcome(), 0
    reported: list[int] = []
    with published() as server:
        while outcome.kills < count:
            before = server.requests
            receive, send = context.Pipe(duplex=False)
            process = context.Process(
                target=KINDS[kind], args=(str(folder), server.url, start, send), daemon=True
            )
            process.start()
            send.close()
            while not receive.poll(0.01):  # at work?
                if server.requests > before or not process.is_alive():
                    break
            time.sleep(rng.random() * PATIENCE)
            with contextlib.suppress(ProcessLookupError):  # it was done already
                os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            outcome.kills += process.exitcode == -signal.SIGKILL
            done = list(_drain(receive))
            outcome.done += len(done)
            reported = done if kind == "download" else [*reported, *done]
            start = look(kind, folder, reported, outcome)
    files.check_writable(folder / "next")  # whoever writes next removes what the dead left
    outcome.left = sum(1 for _ in folder.glob(f"{files.PREFIX}*"))
    return outcome


def crowd(kind: str, count: int, folder: Path) -> Outcome:
    """Run ``count`` concurrent processes that do the same work on the same files."""
    context, outcome = _context(), Outcome()
    barrier = context.Barrier(count)
    with published() as server:
        arguments = (kind, str(folder), server.url, barrier)
        processes = [context.Process(target=together, args=arguments) for _ in range(count)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            outcome.lost += process.exitcode != 0
    outcome.done = count * SHARED
    expected = {"download": [0], "checkpoint": [SHARED - 1]}.get(kind, list(range(SHARED)))
    if kind == "append":
        records = results.Store(folder / "results.jsonl").records()
        keys = {record["key"] for record in records}
        own = sum("-" in key for key in keys)
        outcome.lost += sum(str(i) not in keys for i in expected) + max(0, count * SHARED - own)
        lines = (folder / "results.jsonl").read_bytes().count(b"\n")
        outcome.torn += lines - len(records)
    else:
        look(kind, folder, expected, outcome)
    outcome.left = sum(1 for _ in folder.glob(f"{files.PREFIX}*"))
    return outcome


def _drain(receive: Any) -> Iterator[int]:
    with contextlib.suppress(EOFError, OSError):
        while receive.poll():
            yield int(receive.recv_bytes())


def _context() -> Any:
    """A context that forks processes from a server that has imported the package."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.robustness.crash_workers", "pooch"])
    return context


class _Publisher(http.server.BaseHTTPRequestHandler):
    """Serves :func:`archive` in pieces, slowly enough to be killed in between."""

    server: Any

    def do_GET(self) -> None:
        """Send the archive."""
        self.server.requests += 1
        content = archive()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked was killed
            for at in range(0, len(content), 5000):
                self.wfile.write(content[at : at + 5000])
                time.sleep(PATIENCE / 20)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def published() -> Iterator[Any]:
    """A server on loopback; ``url`` is that of the archive, ``requests`` their number."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Publisher)
    server.url, server.requests = f"http://127.0.0.1:{server.server_port}/TINY.zip", 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("kills", 8, "Total number of kills.", 1, flag_values=values)
    absl_flags.DEFINE_integer(
        "processes", 8, "Number of concurrent processes.", 1, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Run all tests; exit code 1 if anything was lost, torn or left behind."""
    print("| work | kills | pieces done | lost | torn | left behind |\n|---|---|---|---|---|---|")
    bad = 0
    for i, kind in enumerate(KINDS):
        share = values.kills // len(KINDS) + (i < values.kills % len(KINDS))
        for title, act in (
            (f"{kind}, killed", lambda place: kill(kind, share, values.seed, place)),  # noqa: B023
            (f"{kind}, {values.processes} at once",
             lambda place: crowd(kind, values.processes, place)),  # noqa: B023
        ):  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                outcome = act(Path(folder))
            print(outcome.line(title), flush=True)
            bad += outcome.lost + outcome.torn + outcome.left
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    flags.launch(main, ["seed"], define)
