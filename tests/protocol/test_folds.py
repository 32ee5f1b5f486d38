"""Cross-validation fold by fold: the same lines whatever the order, the breaks, the shards.

Covers fgw_jax.protocol.cost, fgw_jax.protocol.summary.
"""

import dataclasses
import json

import numpy as np
import pytest

from fgw_jax import Graph, datasets, fingerprints
from fgw_jax.datasets import Split
from fgw_jax.errors import DataError, InputError
from fgw_jax.protocol import cost, folds, results, summary
from fgw_jax.protocol.settings import Settings, expand

SMALL = {"num_layers": 1, "hidden": 4, "epochs": 2, "batch_size": 16, "folds": 3}


@pytest.fixture(scope="module")
def data():
    """Random graphs whose features give the class away."""
    plain = datasets.synthetic(num_graphs=36, size=6, seed=1)
    graphs = [
        Graph.from_adjacency(graph.adjacency, np.full((graph.num_nodes, 1), 2.0 * label - 1))
        for graph, label in plain
    ]
    return datasets.Dataset(graphs, plain.labels, name="mine")


@pytest.fixture(scope="module")
def runner(data):
    return folds.FoldRunner(own=[data])


@pytest.fixture(scope="module")
def runs():
    return expand(["vanilla", "ifmixup"], dataset="mine", **SMALL)


@pytest.fixture(scope="module")
def undisturbed(runner, runs, tmp_path_factory):
    store = results.Store(tmp_path_factory.mktemp("whole") / "results.jsonl")
    folds.run(folds.jobs(runs), store, runner)
    return store


def scores(store):
    return {r["key"]: (r["test"], r["validation"], r["best_epoch"]) for r in store.records()}


def test_a_line_says_what_ran(undisturbed, runner, runs, data):
    lines = [json.loads(line) for line in undisturbed.path.read_text().splitlines()]
    # As they were done, which is no order of its own.
    found = {(line["settings"]["augment"], line["fold"]): line for line in lines}
    assert set(found) == {(run.augment, fold) for run in runs for fold in range(3)}
    assert len(found) == len(lines)
    first = found[runs[0].augment, 0]
    assert first["settings"] == runs[0].resolved()
    assert first["data"] == data.fingerprint()
    assert first["code"] == fingerprints.code_fingerprint()
    assert first["versions"]["jax"]
    assert first["metric"] == "accuracy"
    assert first["epochs"] == 2
    assert set(first["seconds"]) == {"augment", "train"}
    size = len(runner.splits(runs[0])[0].test)
    assert first["test"] * size == pytest.approx(round(first["test"] * size))


def test_stopped_and_resumed_ends_with_the_same_lines(undisturbed, runner, runs, tmp_path):
    store = results.Store(tmp_path / "results.jsonl")
    work = folds.jobs(runs)
    folds.run(work[:2], store, runner)
    before = store.path.read_bytes()
    folds.run(work, results.Store(store.path), runner)
    assert store.path.read_bytes().startswith(before)
    assert scores(store) == scores(undisturbed)
    done = store.path.read_bytes()
    folds.run(work, results.Store(store.path), runner)
    assert store.path.read_bytes() == done


def test_shards_in_any_order_make_the_same_lines(undisturbed, runner, runs, tmp_path):
    work = folds.jobs(runs)
    parts = [folds.shard(work, 2, i) for i in (1, 0)]
    assert sorted(map(work.index, parts[0] + parts[1])) == list(range(len(work)))
    store = results.Store(tmp_path / "results.jsonl")
    for part in parts:
        folds.run(part[::-1], store, runner)
    assert scores(store) == scores(undisturbed)
    for bad in ((0, 0), (2, 2), (2, -1)):
        with pytest.raises(InputError, match="shard"):
            folds.shard(work, *bad)


def test_first_folds_only_and_the_rest_later(runner, runs):
    some = folds.jobs(runs, max_folds=1)
    assert [job.fold for job in some] == [0, 0]
    assert {runner.key(job) for job in some} <= {runner.key(job) for job in folds.jobs(runs)}
    with pytest.raises(InputError, match="max_folds: 0"):
        folds.jobs(runs, max_folds=0)


def test_a_fold_may_end_early(runner):
    fields = SMALL | {"dataset": "mine", "epochs": 150, "learning_rate": 0.3}
    whole, early = Settings(**fields), Settings(patience=2, **fields)
    assert 100 <= runner.run(folds.Job(early, 0))["epochs"] < 150
    assert runner.key(folds.Job(early, 0)) != runner.key(folds.Job(whole, 0))


def test_label_noise_reaches_training_only(runner):
    longer = SMALL | {"epochs": 40, "learning_rate": 0.02}
    clean = runner.run(folds.Job(Settings(dataset="mine", **longer), 0))
    noisy = runner.run(folds.Job(Settings(dataset="mine", label_noise=1.0, **longer), 0))
    # Every training label is switched: what is learned is the opposite of clean validation labels.
    assert noisy["validation"] < clean["validation"]
    assert noisy["run"] != clean["run"]
    job = folds.Job(Settings(dataset="mine", label_noise=1.0, **longer), 0)
    parts, whole = (
        runner.parts(job),
        runner.parts(folds.Job(Settings(dataset="mine", **longer), 0)),
    )
    same = [(a.labels == b.labels).all() for a, b in zip(parts, whole, strict=True)]
    assert (parts[0].labels != whole[0].labels).all() and same[1:] == [True, True]


@pytest.mark.slow
def test_scaffold_repeats_the_published_split_with_other_seeds(data):
    order = np.arange(len(data))
    split = Split(order[:20], order[20:28], order[28:])
    molecules = data.replace(name="ogbg-mine", split=split)
    runner = folds.FoldRunner(own=[molecules])
    run = Settings(dataset="ogbg-mine", **(SMALL | {"folds": 2}))
    assert [s is split for s in runner.splits(run)] == [True, True]
    lines = [runner.run(job) for job in folds.jobs([run])]
    assert {line["metric"] for line in lines} == {"auroc"}
    assert len({line["key"] for line in lines}) == 2


def test_another_split_of_ones_own_is_another_fold(data):
    order = np.arange(len(data))
    keys = []
    for given in (order, order[::-1]):
        split = Split(given[:20], given[20:28], given[28:])
        runner = folds.FoldRunner(own=[data.replace(name="ogbg-mine", split=split)])
        (job,) = folds.jobs([Settings(dataset="ogbg-mine", **(SMALL | {"folds": 1}))])
        keys.append(runner.key(job))
    assert keys[0] != keys[1]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_fold_that_fails_keeps_none_from_its_line(data, tmp_path, workers):
    """Folds whose validation set has one class have no AUROC; the others have theirs."""
    order, labels = np.arange(len(data)), np.asarray(data.labels)
    one_class = np.flatnonzero(labels == 1)[:6]
    rest = np.setdiff1d(order, one_class)
    bad = data.replace(name="ogbg-bad", split=Split(rest[:20], one_class, rest[20:]))
    good = data.replace(name="ogbg-good", split=Split(order[:20], order[20:28], order[28:]))
    runner = folds.FoldRunner(own=[bad, good])
    names = ("ogbg-bad", "ogbg-good")
    runs = [Settings(dataset=name, **(SMALL | {"folds": 2})) for name in names]
    store = results.Store(tmp_path / "results.jsonl")
    with pytest.raises(InputError, match=r"valid: no graph of class 0.*ogbg-bad.*2 of 4 folds"):
        folds.run(folds.jobs(runs), store, runner, workers=workers)
    assert [r["settings"]["dataset"] for r in store.records()] == ["ogbg-good"] * 2


def test_what_cannot_be_split_or_found_shows_before_any_work(runner, tmp_path):
    with pytest.raises(InputError, match="folds: the smallest class has 18 graphs"):
        runner.check([Settings(dataset="mine", folds=19)])
    with pytest.raises(InputError, match="no split was published"):
        runner.check([Settings(dataset="mine", protocol="scaffold")])
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="data_dir"):
        folds.FoldRunner(tmp_path / "file").check([Settings(dataset="MUTAG")])


def test_tables_of_what_ran(undisturbed, runs):
    lines = summary.ResultIndex(undisturbed.records())
    found = [lines.find(run) for run in runs]
    text = summary.summary_table(found)
    assert text.count("3 of 3") == 2
    assert f"{found[0].mean:.2f} ({found[0].deviation:.2f})" in text
    vanilla = summary.run_key(runs[0])
    tests = [r["test"] for r in undisturbed.records() if r["run"] == vanilla]
    assert len(tests) == 3 and found[0].mean == pytest.approx(100 * np.mean(tests))
    assert "ifmixup" in summary.seconds_table(found)
    assert lines.find(Settings(dataset="mine", epochs=7)) is None
    best = lines.best(runs)
    assert best.validation.mean() == max(f.validation.mean() for f in found)
    assert summary.paired_test(found[0], found[0]) == 1.0
    assert 0 <= summary.paired_test(*found) <= 1


def test_lines_of_two_copies_of_the_data_are_not_mixed(undisturbed):
    records = undisturbed.records()
    altered = {**records[1], "data": "other"}
    with pytest.raises(DataError, match="two different copies"):
        summary.ResultIndex([records[0], altered])


def test_the_estimate_follows_what_ran(undisturbed, runner, runs, tmp_path):
    work = folds.jobs(runs)
    empty = results.Store(tmp_path / "none.jsonl")
    assert cost.describe([], empty, runner) == "all folds are finished"
    assert cost.describe(work, empty, runner).startswith("about")
    seen = results.Store(tmp_path / "seen.jsonl")
    vanilla = [r for r in undisturbed.records() if r["settings"]["augment"] == "vanilla"]
    for record, seconds in zip(vanilla, (2.0, 30.0, 4.0), strict=True):
        seen.append({**record, "seconds": {"train": seconds}, "side_by_side": 2})
    # The median of the folds, which shared the machine two by two, for each of three folds.
    assert cost.estimate(folds.jobs(runs[:1]), seen, runner).seconds == pytest.approx(3 * 4.0 / 2)
    early = [dataclasses.replace(run, epochs=1000, patience=5) for run in runs]
    long = [dataclasses.replace(run, epochs=1000) for run in runs]
    short, whole = (cost.estimate(folds.jobs(x), empty, runner) for x in (early, long))
    assert short.seconds < 0.2 * whole.seconds
    assert "6 folds to do" in cost.listing(runs, work, empty, runner)
    assert cost.listing(runs, [], undisturbed, runner).count("done") == 2
