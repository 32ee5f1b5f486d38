"""The loaders against corrupted and hostile files: loaded to a valid dataset, or refused by name.

FGW_JAX_MUTATIONS sets the number of seeded mutations of the slow test (300 by default).
"""

import os
import re
import stat
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from experiments import fuzz
from experiments.robustness import corrupted_files
from fgw_jax.datasets import load
from fgw_jax.errors import DataError, FgwJaxError, InputError

ROOT = Path(__file__).resolve().parents[2]
SEEDS = {seed.name: seed for seed in (corrupted_files.tiny_tu(), corrupted_files.tiny_ogb())}


def python(*arguments, timeout=600):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def write(folder, seed, changes=()):
    for name, text in (seed.files | dict(changes)).items():
        file = folder / seed.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(corrupted_files.packed(name, text))
    return folder


@pytest.mark.slow
def test_every_mutation_loads_or_is_refused_in_bounded_memory():
    count = os.environ.get("FGW_JAX_MUTATIONS", "300")
    done = python("-m", "experiments.fuzz", f"--mutations={count}", timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} mutations" in done.stdout
    assert "0 foreign exceptions, 0 files outside the cache" in done.stdout
    loaded, refused = (int(re.search(rf"(\d+) {w}", done.stdout)[1]) for w in ("loaded", "refused"))
    assert loaded > 0.05 * int(count) and refused > 0.5 * int(count)
    assert float(re.search(r"peak memory (\d+) MB", done.stdout)[1]) < 512


def test_the_same_seed_spoils_the_same_way(tmp_path):
    trees = []
    for copy in ("one", "two"):
        for i in range(20):
            folder = tmp_path / copy / str(i)
            folder.mkdir(parents=True)
            rng = np.random.default_rng([0, i])
            corrupted_files.corrupt(SEEDS["TINY"], rng, folder, Path("/nowhere"))
        files = [p for p in sorted((tmp_path / copy).rglob("*.txt")) if p.is_file()]
        trees.append([(p.relative_to(tmp_path / copy), p.read_bytes()) for p in files])
    assert trees[0] == trees[1] and len(trees[0]) > 20


@pytest.mark.parametrize("name", SEEDS)
def test_the_seeds_are_valid(tmp_path, name):
    fuzz.check_dataset(load(name, write(tmp_path, SEEDS[name])))


HUGE = b"9223372036854775807"


@pytest.mark.parametrize(
    ("name", "file", "text", "told"),
    [
        ("TINY", "TINY_A.txt", b"1, " + HUGE + b"\n", "the node number lies outside 1..18"),
        ("TINY", "TINY_A.txt", b"1, -9223372036854775808\n", "the node number lies outside"),
        ("TINY", "TINY_graph_indicator.txt", (HUGE + b"\n") * 18, "the graph number lies outside"),
        ("TINY", "TINY_graph_indicator.txt", b"1\n" * 400_000, "graph 2 has no node"),
        ("TINY", "TINY_node_attributes.txt", b"1e300\n" * 18, "beyond what float32 holds"),
        ("TINY", "TINY_node_attributes.txt", b"1e400\n" * 18, "NaN or infinite number"),
        ("ogbg-moltiny", "raw/num-node-list.csv.gz", (HUGE + b"\n") * 5, "more nodes than"),
        # four of these sum to 0 modulo 2^64, so that the sum of all is what it should be
        (
            "ogbg-moltiny",
            "raw/num-node-list.csv.gz",
            b"4611686018427387904\n" * 4 + b"15\n",
            "line 1: more nodes than raw/node-feat.csv.gz has lines",
        ),
        (
            "ogbg-moltiny",
            "raw/num-edge-list.csv.gz",
            b"4611686018427387904\n" * 4 + b"10\n",
            "line 1: more edges than raw/edge.csv.gz has lines",
        ),
    ],
)
def test_huge_numbers_are_refused_by_file_and_line(tmp_path, name, file, text, told):
    folder = write(tmp_path, SEEDS[name], {file: text})
    with pytest.raises(DataError, match=re.escape(told)):
        load(name, folder, attributes=name == "TINY")


#: Run with the address space limited to half a gigabyte more than the imports took.
LIMITED = """
import sys
from experiments import fuzz
from fgw_jax.datasets import load
from fgw_jax.errors import DataError
before = fuzz.peak()
with fuzz.limited(512):
    for folder in sys.argv[1:]:
        try:
            load("TINY", folder)
        except DataError as error:
            print("refused:", error)
print("megabytes:", fuzz.peak() - before)
"""


@pytest.mark.slow
def test_a_small_file_cannot_claim_gigabytes(tmp_path):
    count = 200_000
    nodes = range(1, count + 1)
    chain = {
        "TINY_A.txt": b"".join(b"%d, %d\n" % (i, i + 1) for i in nodes[:-1]),
        "TINY_graph_indicator.txt": b"1\n" * count,
        "TINY_graph_labels.txt": b"1\n",
    }
    constant = chain | {"TINY_node_labels.txt": b"1\n" * count}
    distinct = chain | {"TINY_node_labels.txt": b"".join(b"%d\n" % i for i in nodes)}
    write(tmp_path / "one large graph", SEEDS["TINY"], constant)
    write(tmp_path / "as many labels as nodes", SEEDS["TINY"], distinct)
    write(tmp_path / "sparse", SEEDS["TINY"])
    os.truncate(tmp_path / "sparse" / "TINY" / "TINY_A.txt", 3 << 30)
    (tmp_path / "bomb").mkdir()
    with zipfile.ZipFile(tmp_path / "bomb" / "TINY.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("TINY_A.txt", bytes(100 << 20))
    done = python("-c", LIMITED, *sorted(tmp_path.iterdir()))
    assert done.returncode == 0, done.stderr
    assert "would unpack to 104857600 bytes, more than" in done.stdout
    assert done.stdout.count("refused:") == 4
    assert float(done.stdout.split("megabytes:")[1]) < 300


def hostile_zip(path, name, *, link=False, times=1, method=zipfile.ZIP_DEFLATED):
    member = zipfile.ZipInfo(name)
    member.compress_type = method
    if link:
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same name twice is the point
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in SEEDS["TINY"].files.items():
                archive.writestr(f"TINY/{file}", text)
            for _ in range(times):
                archive.writestr(member, b"1\n")


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("/outside/absolute", {}, "points outside"),
        ("../outside/parent", {}, "points outside"),
        ("TINY/../../outside/parent", {}, "points outside"),
        ("..\\outside\\parent", {}, "points outside"),
        ("C:outside", {}, "points outside"),
        ("TINY/link", {"link": True}, "points outside"),
        ("TINY/strange", {"method": zipfile.ZIP_LZMA}, "other than deflate"),
        ("TINY/strange", {"method": zipfile.ZIP_BZIP2}, "other than deflate"),
        ("../" * 20_000 + "deep", {}, "points outside"),
    ],
)
def test_archives_cannot_escape(tmp_path, name, options, told):
    cache = tmp_path / "cache"
    cache.mkdir()
    hostile_zip(cache / "TINY.zip", name, **options)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=told) as caught:
        load("TINY", cache)
    assert len(str(caught.value)) < 1000
    assert sorted(tmp_path.rglob("*")) == before


def test_a_member_that_is_there_twice_is_read_once(tmp_path):
    hostile_zip(tmp_path / "TINY.zip", "TINY/TINY_graph_labels.txt", times=2)
    with pytest.raises(DataError, match="the graph number lies outside 1..1"):
        load("TINY", tmp_path)


@pytest.mark.parametrize("cut", [1, 30, 200, 500])
def test_a_zip_or_gz_cut_short_is_refused(tmp_path, cut):
    hostile_zip(tmp_path / "TINY.zip", "TINY/more")
    whole = (tmp_path / "TINY.zip").read_bytes()
    (tmp_path / "TINY.zip").write_bytes(whole[:-cut])
    with pytest.raises(DataError, match="not a zip, or cut short"):
        load("TINY", tmp_path)
    write(tmp_path, SEEDS["ogbg-moltiny"])
    file = tmp_path / "ogbg_moltiny" / "raw" / "edge.csv.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[: max(1, len(whole) - cut)])
    with pytest.raises(DataError, match=r"edge\.csv\.gz: cannot be read"):
        load("ogbg-moltiny", tmp_path)


@pytest.mark.parametrize("target", ["itself", "a folder", "/dev/zero", "nothing"])
def test_a_folder_or_a_device_in_the_place_of_a_file(tmp_path, target):
    file = write(tmp_path, SEEDS["TINY"]) / "TINY" / "TINY_graph_indicator.txt"
    file.unlink()
    if target == "a folder":
        file.mkdir()
    else:
        file.symlink_to({"itself": file.name, "nothing": "gone"}.get(target, target))
    with pytest.raises(DataError, match=r"TINY_graph_indicator\.txt is missing"):
        load("TINY", tmp_path)


@pytest.mark.parametrize("name", ["", "..", "../TINY", "/TINY", "A" * 300, "TI\0NY", "TINY\n", "é"])
def test_a_name_is_not_a_path(tmp_path, name):
    with pytest.raises(InputError, match="is not a dataset's name"):
        load(name, tmp_path)
    assert issubclass(InputError, FgwJaxError)


def test_corrupted_copies_of_real_datasets(datasets_dir):
    for name in fuzz.REAL:
        seed = fuzz.seeds(datasets_dir)[name]
        assert len(seed.files) > 5
    report = fuzz.run(60, 1, datasets_dir, only=("MUTAG",))
    assert report.kinds["MUTAG"] + report.kinds["downloaded"] == 60
    assert not report.foreign and not report.outside, report.foreign + report.outside
