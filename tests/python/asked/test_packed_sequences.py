"""Packed sequences in captured functions: the lengths are asked for, whatever they are made of."""
import diptych
import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

LENGTHS = [4, 2, 1]


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()


def both(function, compiled, *arguments, order=2):
    """Compares results, gradients and second gradients."""
    found = []
    for call in (function, compiled):
        given = [one.detach().clone().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one for one in arguments]
        wanted = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
        result = call(*given)
        observed = [result]
        value = sum(one.square().sum() for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad)
        for _ in range(order):
            gradients = torch.autograd.grad(value, wanted, create_graph=True)
            observed.extend(gradients)
            value = sum(gradient.square().sum() for gradient in gradients)
        found.append(observed)
    torch.testing.assert_close(found[1], found[0])
    strides = [[one.stride() for one in torch.utils._pytree.tree_leaves(observed[0]) if isinstance(one, torch.Tensor)] for observed in found]
    assert strides[1] == strides[0]


def round_trip(x, lengths, batch_first, is_sorted, **options):
    packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=is_sorted)
    other = rnn.PackedSequence(packed.data.sin(), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
    padded, found = rnn.pad_packed_sequence(other, batch_first, **options)
    return padded * 2, packed.data, packed.batch_sizes, found


@pytest.mark.parametrize("sizes", [(), (3,), (2, 2)])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("is_tensor", [False, True])
def test_packing_and_padding(sizes, batch_first, is_sorted, is_tensor):
    def function(x, lengths):
        return round_trip(x, lengths, batch_first, is_sorted)

    compiled = diptych.aot_function(function)
    x = leaf(*((3, 4) if batch_first else (4, 3)), *sizes)
    ways = [LENGTHS, LENGTHS, [3, 3, 3], LENGTHS] + ([] if is_sorted else [[1, 4, 2]])
    for lengths in ways:
        both(function, compiled, x, torch.tensor(lengths) if is_tensor else lengths)
    # The order of lengths in a tensor is not asked for: it is data of the gathers.
    assert compiled.stats().originals == 0 and compiled.stats().hits == (3 if is_tensor and not is_sorted else 2)


def test_options_of_padding():
    for options in ({"padding_value": -1.5}, {"total_length": 6}, {"padding_value": float("inf"), "total_length": 5}):
        function = lambda x, lengths: round_trip(x, lengths, True, False, **options)  # noqa: B023, E731
        compiled = diptych.aot_function(function)
        for _ in range(2):
            both(function, compiled, leaf(3, 4, 2), torch.tensor([1, 3, 2]), order=0 if "inf" in str(options) else 2)
        assert compiled.stats().hits == 1


def test_integers_and_gaps():
    function = lambda x, lengths: round_trip(x, lengths, True, False)[1:]  # noqa: E731
    for x in (torch.arange(24).reshape(3, 4, 2), torch.randn(4, 3, 2).transpose(0, 1), torch.randn(3, 8, 2)[:, ::2], torch.randn(3, 4, 1).expand(3, 4, 2)):
        torch.testing.assert_close(diptych.aot_function(lambda x, lengths: round_trip_of_any(x, lengths))(x, torch.tensor([1, 3, 2])), round_trip_of_any(x, torch.tensor([1, 3, 2])))
    both(function, diptych.aot_function(function), leaf(3, 4, 2), torch.tensor([1, 3, 2]), order=1)


def round_trip_of_any(x, lengths):
    packed = rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    return (packed.data, *rnn.pad_packed_sequence(packed, True, padding_value=7))


def test_sequences():
    def function(a, b, c):
        packed = rnn.pack_sequence([a, b, c], enforce_sorted=False)
        return packed.data.exp(), *rnn.unpack_sequence(packed)

    compiled = diptych.aot_function(function)
    for lengths in ((2, 4, 1), (2, 4, 1), (3, 3, 1)):
        both(function, compiled, *(leaf(length, 3) for length in lengths))
    assert compiled.stats().originals == 0 and compiled.stats().hits == 1


class Tagger(nn.Module):
    """An encoder as sequence models have it: embedding, packed recurrent layer, padded result."""

    def __init__(self, kind, batch_first=True, bidirectional=False, layers=1, dropout=0.0, **options):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(9, 3, padding_idx=0)
        self.layer = kind(3, 4, layers, batch_first=batch_first, bidirectional=bidirectional, dropout=dropout, **options)
        self.batch_first = batch_first

    def forward(self, words, mask):
        lengths = mask.sum(1)
        embedded = self.embedding(words if self.batch_first else words.t())
        packed = rnn.pack_padded_sequence(embedded, lengths.cpu(), self.batch_first, enforce_sorted=False)
        output, hidden = self.layer(packed)
        hidden = hidden[0] + hidden[1] if isinstance(hidden, tuple) else hidden
        return rnn.pad_packed_sequence(output, self.batch_first)[0], hidden


MASKS = [torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]), torch.ones(3, 4, dtype=torch.long)]
WORDS = torch.randint(1, 9, (3, 4), generator=torch.Generator().manual_seed(2))
LAYERS = {
    "LSTM": lambda: Tagger(nn.LSTM),
    "LSTM of two directions": lambda: Tagger(nn.LSTM, bidirectional=True, layers=2),
    "LSTM of two layers": lambda: Tagger(nn.LSTM, layers=2),
    "GRU": lambda: Tagger(nn.GRU, batch_first=False, bidirectional=True),
    "RNN": lambda: Tagger(nn.RNN),
    "RNN with relu": lambda: Tagger(nn.RNN, nonlinearity="relu", layers=2, dropout=0.3),
    "no biases": lambda: Tagger(nn.GRU, bias=False),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    for _ in range(2):  # a second module of the class
        module, eager = LAYERS[name](), LAYERS[name]()
        compiled = diptych.aot_module(module, eager_fallback=False)
        for mask in (*MASKS, *MASKS):
            found = []
            for call, of in ((eager, eager), (compiled, module)):
                torch.manual_seed(5)
                of.zero_grad()
                padded, hidden = call(WORDS * mask, mask)
                (padded.square().sum() + hidden.sin().sum()).backward()
                found.append((padded, hidden, [parameter.grad for parameter in of.parameters()]))
            torch.testing.assert_close(found[1], found[0])
        assert (compiled.stats().misses, compiled.stats().hits, compiled.stats().originals) == (2, 2, 0)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_second_derivatives_of_a_layer(kind):
    torch.manual_seed(0)
    layer = kind(3, 2, bidirectional=True).double()
    function = lambda x, lengths: rnn.pad_packed_sequence(layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[0])[0]  # noqa: E731
    compiled = diptych.aot_function(function)
    for _ in range(2):
        both(function, compiled, leaf(4, 3, 3), torch.tensor([2, 4, 1]))
    assert compiled.stats().hits == 1


def test_a_packed_sequence_as_argument_and_result():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 2).double()
    function = lambda packed: layer(packed)[0]  # noqa: E731
    compiled = diptych.aot_function(function)
    for lengths in (LENGTHS, LENGTHS, [4, 4, 1]):
        packed = rnn.pack_padded_sequence(leaf(4, 3, 3), lengths)
        expected, found = function(packed), compiled(packed)
        assert type(found) is rnn.PackedSequence
        torch.testing.assert_close(tuple(found)[:2], tuple(expected)[:2])
    assert (compiled.stats().misses, compiled.stats().hits, compiled.stats().originals) == (2, 1, 0)


def test_batch_sizes_that_are_returned_are_the_callers():
    compiled = diptych.aot_function(lambda x, lengths: rnn.pack_padded_sequence(x, lengths)[:2])
    for _ in range(3):
        data, batch_sizes = compiled(leaf(4, 3, 2), torch.tensor(LENGTHS))
        assert batch_sizes.tolist() == [3, 2, 1, 1] and batch_sizes.device.type == "cpu"
        batch_sizes.zero_()


WRONG = {
    "not sorted": lambda x: rnn.pack_padded_sequence(x, torch.tensor([1, 2, 4])),
    "nothing": lambda x: rnn.pack_padded_sequence(x, torch.tensor([4, 2, 0])),
    "of another number": lambda x: rnn.pack_padded_sequence(x, torch.tensor([4, 2])),
    "empty": lambda x: rnn.pack_padded_sequence(x[:, :, :0], torch.tensor(LENGTHS)),
    "one dimension": lambda x: rnn.pack_padded_sequence(x[:, 0, 0], torch.tensor([4])),
    "total": lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, torch.tensor(LENGTHS)), total_length=2),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_eagers(name):
    compiled = diptych.aot_function(WRONG[name])
    for _ in range(2):
        errors = []
        for call in (WRONG[name], compiled):
            with pytest.raises(Exception) as caught:
                call(leaf(4, 3, 2))
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


def test_without_questions_it_is_refused():
    hidden = (torch.zeros(1, 3, 2), torch.zeros(1, 3, 2))
    for function in (lambda packed: nn.LSTM(3, 2)(packed, hidden)[0].data, lambda packed: rnn.pad_packed_sequence(packed)[0]):
        with pytest.raises(diptych.UserError, match="needs the values of a tensor.*a mask instead of a packed sequence"):
            diptych.capture(function, rnn.pack_padded_sequence(torch.ones(4, 3, 3), LENGTHS))


def test_autocast_and_dynamo():
    module, eager = Tagger(nn.LSTM), Tagger(nn.LSTM)
    compiled = diptych.aot_module(module, eager_fallback=False)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(WORDS, MASKS[0]), eager(WORDS, MASKS[0]))
    by_dynamo = torch.compile(Tagger(nn.LSTM), backend="diptych")
    torch.testing.assert_close(by_dynamo(WORDS, MASKS[0]), eager(WORDS, MASKS[0]))
