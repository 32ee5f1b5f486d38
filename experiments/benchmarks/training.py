"""Seconds per epoch of every backbone, beside PyTorch Geometric on the same machine.

    python -m experiments.benchmark --suite=training --datasets=PROTEINS,NCI1 --data_dir=FOLDER

PyG's models are the same networks: GCN or GIN layers of the same widths over graphs with a virtual
node, ReLU, batch norm, the same head, AdamW. An epoch of both trains on 81 % of the graphs in
batches of 128 and scores 9 % for validation. Epochs of the two alternate, so that both meet the
same machine; the least of each is compared. Compilation is timed apart. "products s" is what an
epoch would take if everything but its matrix products were free: each product of a step timed by
itself, on the same padded shapes. Written to ``training.md``.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import backbones, datasets
from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones import MPNNS, nodes
from fgw_jax.backbones.layers import linear
from fgw_jax.datasets import Dataset
from fgw_jax.errors import InputError, check
from fgw_jax.runtime import files
from fgw_jax.training import Config, packing, step
from fgw_jax.training.config import TracedHyperparameters
from fgw_jax.training.sets import TrainingSets
from fgw_jax.training.state import initial

DATASETS = ("PROTEINS", "NCI1", "IMDB-BINARY")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; seconds, and ``None`` where there is no peer."""

    dataset: str
    backbone: str
    compile: float
    epoch: float
    peer: float | None
    products: float | None
    megabytes: float

    @property
    def ratio(self) -> float | None:
        """Speed-up over the peer."""
        return None if self.peer is None else self.peer / self.epoch


def ours(data: Dataset, backbone: str, batch_size: int, seed: int) -> tuple[float, Callable]:
    """Seconds of compilation, and a function that trains one epoch."""
    wide = not (backbone == "graphormer_gd" and data.name == "PROTEINS")
    model = backbones.make(backbone, data.num_classes, 64 if wide else 32, 6 if wide else 5)
    train, valid, _ = _parts(data, seed)
    config = Config(batch_size=batch_size)
    key = jax.random.key(seed)
    sets = TrainingSets(model, train, valid, Augmentation(), key, config)
    sets.draw(0)
    hyper = TracedHyperparameters.of(config)
    state = initial(model, sets.pool, hyper, key)
    program = step.Program(model, sets.layout, Augmentation(), config.select)
    start = time.perf_counter()
    arguments = (state, sets.pool, sets.train, sets.valid, hyper, 1)
    run = step.run.lower(program, *arguments).compile()
    seconds = time.perf_counter() - start

    def epoch() -> None:
        nonlocal state
        arguments = (state, sets.pool, sets.train, sets.valid, hyper, state.epoch + 1)
        state, _ = jax.block_until_ready(run(*arguments))

    return seconds, epoch


def products(data: Dataset, backbone: str, batch_size: int, seed: int, width: int = 64) -> float:
    """Seconds per epoch of the matrix products of a message-passing backbone of six layers.

    Products with the features, in the first layer, and with the rows of rare large graphs are left
    out: what is found is a floor.
    """
    train = _parts(data, seed)[0]
    model = backbones.make(backbone, data.num_classes, width)
    sizes = [graph.num_nodes for graph in model.quotients(data.graphs)]
    plan = packing.plan(
        sizes, packing.equal_batch_size(len(train), batch_size), slots=packing.SLOTS
    )
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    shapes = list(zip(plan.shares, plan.sizes, strict=True))
    shapes = [(b, m) for b, m in shapes if not nodes.mostly_empty(b, m)]
    rows = [draw(b * m, width) for b, m in shapes]
    blocks, stacked = [draw(b, m, m) for b, m in shapes], [draw(b, m, width) for b, m in shapes]
    weight = draw(width, width)

    def gradient(xs: Any, gradients: Any) -> Any:
        pull = lambda x: jax.vjp(lambda w: linear(x, w), weight)[1]  # noqa: E731
        return [pull(x)(g)[0] for x, g in zip(xs, gradients, strict=True)]

    forward = _least(lambda xs: [x @ weight for x in xs], rows)
    backward = _least(lambda xs: [x @ weight.T for x in xs], rows)
    weights = _least(gradient, rows, [2 * x for x in rows])
    neighbours = _least(lambda a, x: [p @ q for p, q in zip(a, x, strict=True)], blocks, stacked)
    maps = 5 if backbone == "vgcn" else 11
    num_steps = -(-len(train) // batch_size)
    return num_steps * (maps * (forward + backward + weights) + 10 * neighbours)


def _least(function: Callable, *arguments: Any, calls: int = 50, rounds: int = 5) -> float:
    """Least mean seconds of a compiled call."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*arguments))

    def many() -> None:
        for _ in range(calls):
            out = compiled(*arguments)
        jax.block_until_ready(out)

    return min(_seconds(many) for _ in range(rounds)) / calls


def pyg(data: Dataset, backbone: str, batch_size: int, seed: int) -> Callable[[], None]:
    """A function that trains one epoch of the same network by PyG."""
    import torch
    from torch.nn import functional
    from torch_geometric.loader import DataLoader

    torch.manual_seed(seed)
    train, valid, _ = (
        [_with_virtual_node(graph, int(label)) for graph, label in part]
        for part in _parts(data, seed)
    )
    batches, scored = DataLoader(train, batch_size, shuffle=True), DataLoader(valid, batch_size)
    model = _network(backbone, data.num_features, data.num_classes)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=5e-4)

    def epoch() -> None:
        model.train()
        for batch in batches:
            optimizer.zero_grad()
            functional.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for batch in scored:
                logits = model(batch)
                functional.cross_entropy(logits, batch.y), (logits.argmax(1) == batch.y).sum()

    return epoch


def run(
    names: Sequence[str] = DATASETS,
    models: Sequence[str] = tuple(backbones.BACKBONES),
    *,
    data_dir: str | None = None,
    batch_size: int = 128,
    epochs: int = 5,
    peer: bool = True,
    seed: int = 0,
) -> list[Row]:
    """Time every backbone on every dataset, row by row printed as it comes."""
    print(header(), flush=True)
    rows = []
    for name in names:
        data = datasets.load(name, data_dir)
        for model in models:
            compiling, epoch = ours(data, model, batch_size, seed)
            against = floor = None
            if model in MPNNS:
                floor = products(data, model, batch_size, seed)
            if peer and model in MPNNS:
                against = pyg(data, model, batch_size, seed)
                against()  # its first epoch allocates
            best, other = np.inf, np.inf
            for _ in range(epochs):
                best = min(best, _seconds(epoch))
                other = min(other, _seconds(against)) if against is not None else other
            rows.append(
                Row(
                    name,
                    model,
                    compiling,
                    best,
                    None if against is None else other,
                    floor,
                    _memory(),
                )
            )
            print(line(rows[-1]), flush=True)
    return rows


def header() -> str:
    """The header of the table."""
    names = (
        "dataset", "backbone", "compile s", "s/epoch", "epochs/s", "products s", "PyG s/epoch",
        "faster", "peak MB",
    )  # fmt: skip
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def line(row: Row) -> str:
    """One row of the table."""
    shown = lambda x, digits: "" if x is None else f"{x:.{digits}f}"  # noqa: E731
    cells = (
        row.dataset, row.backbone, shown(row.compile, 1), shown(row.epoch, 3),
        shown(1 / row.epoch, 2), shown(row.products, 3), shown(row.peer, 3), shown(row.ratio, 1),
        shown(row.megabytes, 0),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


#: Flags this suite shares with other binaries.
SHARED = ("data_dir", "out")


def _parts(data: Dataset, seed: int) -> tuple[Dataset, Dataset, Dataset]:
    """81 % of the graphs, 9 % and 10 %."""
    order = np.random.default_rng(seed).permutation(len(data))
    first, second = int(0.81 * len(data)), int(0.9 * len(data))
    return data[order[:first]], data[order[first:second]], data[order[second:]]


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _memory() -> float:
    """Largest memory of this process so far, in megabytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _with_virtual_node(graph: Any, label: int) -> Any:
    import torch

    data = graph.to_pyg(label)
    n = data.num_nodes
    itself, virtual = torch.arange(n), torch.full((n,), n)
    ends = torch.stack([torch.cat([itself, virtual]), torch.cat([virtual, itself])])
    data.edge_index = torch.cat([data.edge_index, ends], 1)
    data.x = torch.cat([data.x, torch.zeros(1, data.x.shape[1])])
    data.virtual = torch.arange(n + 1) == n
    del data.edge_weight, data.weights
    return data


def _network(backbone: str, features: int, classes: int, width: int = 64, layers: int = 6) -> Any:
    import torch
    from torch import nn
    from torch_geometric.nn import GCNConv, GINConv

    def convolution(inputs: int) -> Any:
        if backbone == "vgcn":
            return GCNConv(inputs, width)
        mlp = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width))
        return GINConv(mlp, train_eps=True)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inputs = [features] + [width] * (layers - 1)
            self.convolutions = nn.ModuleList([convolution(i) for i in inputs])
            self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in inputs])
            self.head = nn.Sequential(
                nn.Dropout(), nn.Linear(width, width), nn.ReLU(), nn.Dropout(),
                nn.Linear(width, classes),
            )  # fmt: skip

        def forward(self, batch: Any) -> torch.Tensor:
            x = batch.x
            for convolve, norm in zip(self.convolutions, self.norms, strict=True):
                x = norm(torch.relu(convolve(x, batch.edge_index)))
            return self.head(x[batch.virtual])

    return Network()


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    absl_flags.DEFINE_list("datasets", list(DATASETS), "Datasets to time.", flag_values=values)
    absl_flags.DEFINE_list(
        "backbones", list(backbones.BACKBONES), "Backbones to time.", flag_values=values
    )
    absl_flags.DEFINE_integer("epochs", 5, "Epochs to time of each.", 1, flag_values=values)
    absl_flags.DEFINE_bool(
        "peer", True, "Time PyG too (needs torch_geometric).", flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Print the table."""
    with flags.usage_errors(values):
        check(len(values.datasets) > 0, "datasets: names none; give at least one")
        check(len(values.backbones) > 0, "backbones: names none; give at least one")
        out = flags.out_folder(values)
        if values.peer and importlib.util.find_spec("torch_geometric") is None:
            raise InputError("peer: torch_geometric is not installed; install it, or give --nopeer")
    rows = run(
        values.datasets,
        values.backbones,
        data_dir=values.data_dir,
        epochs=values.epochs,
        peer=values.peer,
    )
    note = f"batches of 128, {jax.default_backend()}, jax {jax.__version__}"
    text = "\n".join([note, "", header(), *map(line, rows)]) + "\n"
    with files.whole_file(out / "training.md") as file:
        file.write(text.encode())
