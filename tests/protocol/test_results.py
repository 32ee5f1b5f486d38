"""The file of results under torn lines, several writers and kills."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from fgw_jax import fingerprints
from fgw_jax.errors import DataError, InputError
from fgw_jax.protocol import results
from fgw_jax.protocol.results import Store


def record(key, **fields):
    return {"key": key, "test": 0.5, **fields}


def test_records_come_back_in_order_and_whole(tmp_path):
    store = Store(tmp_path / "deep" / "results.jsonl")
    for key in "abc":
        assert store.append(record(key, note="naïve\nline"))
    again = Store(store.path)
    assert [r["key"] for r in again.records()] == ["a", "b", "c"]
    assert again["b"]["note"] == "naïve\nline"
    lines = store.path.read_text().splitlines()
    assert len(lines) == 3
    assert all(json.loads(line)["format"] == results.FORMAT for line in lines)


def test_a_key_that_is_there_is_not_written_again(tmp_path):
    first, second = Store(tmp_path / "r.jsonl"), Store(tmp_path / "r.jsonl")
    assert "a" not in second
    assert first.append(record("a"))
    assert not second.append(record("a", test=0.9))
    assert first["a"]["test"] == 0.5
    assert len(first.path.read_text().splitlines()) == 1


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_torn_last_line_is_passed_over_then_repaired(tmp_path, cut):
    store = Store(tmp_path / "r.jsonl")
    store.append(record("a"))
    store.append(record("b"))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-cut])
    assert [r["key"] for r in Store(store.path).records()] == ["a"]
    later = Store(store.path)
    assert later.append(record("c"))
    assert later.append(record("b"))
    assert [r["key"] for r in Store(store.path).records()] == ["a", "c", "b"]
    assert store.path.read_bytes().endswith(b"\n")


def test_zeros_left_by_a_power_cut_are_repaired_too(tmp_path):
    store = Store(tmp_path / "r.jsonl")
    store.append(record("a"))
    with store.path.open("ab") as file:
        file.write(b"\0" * 100)
    assert Store(store.path).append(record("b"))
    assert [r["key"] for r in Store(store.path).records()] == ["a", "b"]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"key":"a"}\nnot json\n{"key":"b"}\n')
    with pytest.raises(DataError, match=r"r\.jsonl, line 2: not a result; remove the line"):
        Store(path).records()


def test_a_replaced_file_is_read_afresh(tmp_path):
    store = Store(tmp_path / "r.jsonl")
    store.append(record("a"))
    assert "a" in store
    store.path.unlink()
    assert "a" not in store
    assert store.append(record("b"))
    assert [r["key"] for r in store.records()] == ["b"]


@pytest.mark.parametrize("bad", [{"test": 1.0}, {"key": ""}, {"key": 3}])
def test_a_record_needs_a_key(tmp_path, bad):
    with pytest.raises(InputError, match="key"):
        Store(tmp_path / "r.jsonl").append(bad)
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path, value):
    with pytest.raises(InputError, match="finite numbers"):
        Store(tmp_path / "r.jsonl").append(record("a", value=value))
    assert not (tmp_path / "r.jsonl").exists()


def _write_many(path, worker, count):
    store = Store(path)
    for i in range(count):
        # every second key is shared by all workers: only one of them may win
        key = f"shared-{i}" if i % 2 else f"{worker}-{i}"
        store.append(record(key, worker=worker, padding="x" * 5000))


@pytest.mark.parametrize("workers", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_processes_at_once_lose_tear_and_double_nothing(tmp_path, workers):
    path, count = tmp_path / "r.jsonl", 30
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_write_many, args=(path, worker, count)) for worker in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    keys = [line["key"] for line in lines]
    expected = {f"shared-{i}" for i in range(1, count, 2)}
    expected |= {f"{w}-{i}" for w in range(workers) for i in range(0, count, 2)}
    assert len(keys) == len(set(keys))
    assert set(keys) == expected


WRITER = """
import sys
from fgw_jax.protocol.results import Store
store = Store(sys.argv[1])
for i in range(10**6):
    if store.append({"key": str(i), "padding": "x" * 20000}):
        print(i, flush=True)
"""


@pytest.mark.slow
def test_killed_writers_lose_no_line_they_reported(tmp_path):
    path = tmp_path / "r.jsonl"
    reported = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        reported.append(int(process.stdout.readline()))
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
        reported += [int(line) for line in rest.splitlines()]
    store = Store(path)
    store.append(record("end"))
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert len(keys) == len(set(keys))
    assert {str(i) for i in reported} <= set(keys)
    assert keys[-1] == "end"


def test_load_joins_files_and_names_a_missing_one(tmp_path):
    one, two = Store(tmp_path / "1.jsonl"), Store(tmp_path / "2.jsonl")
    one.append(record("a"))
    two.append(record("a", test=0.9))
    two.append(record("b"))
    assert [(r["key"], r["test"]) for r in results.load([one.path, two.path])] == [
        ("a", 0.5),
        ("b", 0.5),
    ]
    with pytest.raises(DataError, match="no such file"):
        results.load([tmp_path / "3.jsonl"])


def test_versions_and_fingerprints_say_what_ran():
    versions = results.versions()
    assert {"fgw_jax", "jax", "numpy", "python", "device"} <= set(versions)
    assert len(fingerprints.code_fingerprint()) == 64
    assert results.fingerprint({"a": 1}) != results.fingerprint({"a": 2})
