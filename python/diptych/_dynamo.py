"""torch.compile(backend="diptych"): an entry point of the group torch_dynamo_backends, which Dynamo finds by itself."""
from . import _core
from ._functions import aot_function
from ._torch.checkpoint import run_as_written


def backend(module, example_inputs, options=None, mode=None):
    """Compiles what Dynamo found: `module` is an fx.GraphModule, which is captured when it is first called.
    options: those of Options, as passed to torch.compile(options={"partition": "min_cut"}).
    Errors: UserError for an option that Options does not have, and for a mode."""
    if mode is not None:
        raise _core.UserError(f"[torch.compile] got mode='{mode}', which Inductor has; expected options=, see diptych.Options")
    chosen = {"name": "dynamo", "eager_fallback": True, **(options or {})}
    try:
        _core.Options(**chosen)
    except TypeError as error:
        names = ", ".join(sorted(options))
        raise _core.UserError(f"[torch.compile] got options {names}, expected those of diptych.Options: {error}") from None

    # Its __call__ would print the traceback of what forward() raises, which may be a refusal that is dealt with.
    def call(*inputs):
        return run_as_written(module.forward, *inputs)

    return aot_function(call, **chosen)
