"""torch_geometric: convolutions on one graph, on batches of graphs, and on batches that grow."""
import torch
from harness import STEPS, program, train
from torch import nn
from torch.nn import functional

NODES, FEATURES, CLASSES = 12, 6, 3


def edges(nodes=NODES, count=30, number=0):
    return torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(number))


def features(nodes=NODES, number=0):
    return torch.randn(nodes, FEATURES, generator=torch.Generator().manual_seed(number))


def labels(count=NODES):
    return torch.arange(count) % CLASSES


class OnNodes(nn.Module):
    """Two convolutions with a dropout between them."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        return self.second(functional.dropout(self.first(x, edge_index).relu(), 0.3, self.training), edge_index)


def on_one_graph(way, *models):
    loss = lambda model, x, edge_index: functional.cross_entropy(model(x, edge_index), labels())  # noqa: E731
    return [row for model in models for row in train(way, model, [(features(), edges())] * STEPS, loss)]


@program("torch_geometric.nn")
def gcn(way):
    from torch_geometric.nn import GCNConv

    return on_one_graph(way, OnNodes(GCNConv(FEATURES, 8), GCNConv(8, CLASSES)))


@program("torch_geometric.nn")
def gat(way):
    from torch_geometric.nn import GATConv, GATv2Conv

    return on_one_graph(way, *(OnNodes(kind(FEATURES, 4, heads=2, dropout=0.2), kind(8, CLASSES)) for kind in (GATConv, GATv2Conv)))


class OnGraphs(nn.Module):
    """Takes a Batch, and gives a row of scores for each of its graphs."""

    def __init__(self):
        from torch_geometric.nn import SAGEConv, TopKPooling, TransformerConv

        super().__init__()
        self.first, self.second = SAGEConv(FEATURES, 8), TransformerConv(8, 8, heads=2, concat=False, edge_dim=2)
        self.pool, self.last = TopKPooling(8, ratio=0.6), nn.Linear(8, CLASSES)

    def forward(self, data):
        from torch_geometric.nn import global_mean_pool

        x = self.first(data.x, data.edge_index).relu()
        x = self.second(x, data.edge_index, data.edge_attr).relu()
        x, _, _, batch, _, _ = self.pool(x, data.edge_index, data.edge_attr, data.batch)
        return functional.cross_entropy(self.last(global_mean_pool(x, batch, data.num_graphs)), data.y)


def batch_of(graphs, number=0):
    from torch_geometric.data import Batch, Data

    sizes = [6 + index for index in range(graphs)]
    made = [
        Data(x=features(n, number + n), edge_index=edges(n, 3 * n, number + n), edge_attr=features(3 * n, n)[:, :2], y=torch.tensor([n % CLASSES])) for n in sizes
    ]
    return Batch.from_data_list(made)


@program("torch_geometric.nn")
def batch_of_graphs(way):
    return train(way, OnGraphs(), [(batch_of(3, number),) for number in range(STEPS)])


@program("torch_geometric.nn")
def growing_batches(way):
    return train(way, OnGraphs(), [(batch_of(graphs),) for graphs in (2, 3, 4, 5, 6, 7)])
