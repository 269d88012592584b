"""torch.compile(backend="diptych")."""
from ._functions import aot_function


def backend(module, example_inputs, **options):
    """Compiles what Dynamo found: `module` is an fx.GraphModule, which is captured when it is first called."""

    def call(*inputs):
        return module(*inputs)

    return aot_function(call, **{"name": "dynamo", **options})
