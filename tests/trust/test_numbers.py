"""The same seed gives the same bits on CPU, run to run and process to process; float64 throughout.

Equal bits are promised for one version of XLA, one kind of processor, one padded shape and one
number of lanes. XLA does not allow more: a sum over another padded length, in another number of
lanes or with other vector instructions is added up in another order, so that the same pair in
another chunk, bucket or machine may differ in its last bits, and where nodes are tied a local
solver may then end elsewhere. On GPUs scattered sums are atomic and have no order at all. The
neighbours of a pair, in lanes of one shape, change nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from fgw_jax import Relaxed, datasets, distances

ROOT = Path(__file__).resolve().parents[2]

#: Distances, midpoints, an augmented dataset and a trained model, told by values and fingerprints.
#: All graphs are padded to one size: a process compiles each program once.
EVERYTHING = """
import hashlib, json
import jax, numpy as np
from fgw_jax import Dataset, Relaxed, augment, backbones, datasets, distances, mixups, training

def digest(*arrays):
    whole = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    return hashlib.sha256(whole).hexdigest()

made = datasets.synthetic(num_graphs=12, size=6, seed=0)
data = Dataset([g.pad(12) for g in made.graphs], made.labels)
outs = distances(data.graphs[:6], data.graphs[6:], 0.95, Relaxed(round=True))
kinds = {x.dtype.name for x in (outs.value, outs.gap, *outs.plans)}
mids = mixups(data.graphs[:6], data.graphs[6:], np.full(6, 0.6), solver=Relaxed(), size=8)
kinds |= {x.dtype.name for m in mids for x in (m.graph.structure, m.graph.features, m.plans[1])}
method = augment.FGWMixup(ratio=0.5, solver=Relaxed(), size=8)
more = method(jax.random.key(0), data)
kinds |= {x.dtype.name for g in more.graphs for x in (g.adjacency, g.features, g.weights)}
model = backbones.make("vgcn", 2, hidden=4, num_layers=1)
config = training.Config(epochs=2, batch_size=8, max_shapes=1)
fitted = training.fit(model, more, data, data, config=config, key=jax.random.key(1))
leaves = [np.asarray(x) for x in jax.tree.leaves(fitted.params)]
kinds |= {x.dtype.name for x in leaves}
print(json.dumps({
    "distances": outs.value.tolist(),
    "midpoints": mids.objective.tolist(),
    "training": float(fitted.curves["train_loss"][-1]),
    "bits": [
        digest(outs.value, outs.gap, *outs.plans),
        digest(*(m.graph.structure for m in mids), *(m.plans[0] for m in mids)),
        more.fingerprint(),
        digest(*leaves),
    ],
    "kinds": sorted(kinds),
}))
"""


def run_everything(**environment):
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", EVERYTHING],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def single():
    return run_everything(PYTHONHASHSEED="1")


@pytest.mark.slow
def test_two_processes_give_the_same_bits(single):
    assert run_everything(PYTHONHASHSEED="2") == single
    assert single["kinds"] == ["float32"]


@pytest.mark.slow
def test_double_precision_from_end_to_end(single):
    """Distance, midpoints, FGWMixup and a short training, nothing of it in float32."""
    double = run_everything(JAX_ENABLE_X64="1")
    assert double["kinds"] == ["float64"]
    for name in ("distances", "midpoints"):
        np.testing.assert_allclose(double[name], single[name], rtol=0.02, atol=1e-4)
    # In float64 other numbers are drawn for weights, batches and dropout: another short run.
    assert 0.5 * single["training"] <= double["training"] <= 2 * single["training"]


def test_compiled_again_and_beside_other_neighbours_the_bits_are_the_same():
    graphs = datasets.synthetic(num_graphs=12, size=6, seed=1).graphs
    left, right = list(graphs[:4]), list(graphs[4:8])
    first = distances(left, right, 0.9, Relaxed(), max_shapes=1)
    jax.clear_caches()
    again = distances(left, right, 0.9, Relaxed(), max_shapes=1)
    turned = distances(left[::-1], right[::-1], 0.9, Relaxed(), max_shapes=1)
    np.testing.assert_array_equal(again.value, first.value)
    np.testing.assert_array_equal(turned.value[::-1], first.value)
    for one, two, three in zip(first.plans, again.plans, turned.plans[::-1], strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
