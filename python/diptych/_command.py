"""The `diptych` command: draws captured functions and saved graphs, and says what an installation has."""
import argparse
import importlib
import os
import pathlib
import platform
import re
import sys


def example(text):
    """Makes a tensor of a type such as f32[8,16]; a trailing ! asks for its gradient."""
    import torch

    from diptych import _core

    match = re.fullmatch(r"(\w+)\[([\d,]*)\](!?)", text)
    if match is None:
        raise SystemExit(f"diptych: got the input type '{text}', expected one such as f32[8,16] or f32[16]!")
    try:
        dtype = _core.dtype_from_name(match.group(1))
    except _core.UserError as error:
        raise SystemExit(f"diptych: got the input type '{text}', expected one such as f32[8,16] or f32[16]!: {error}") from error
    sizes = [int(size) for size in match.group(2).split(",") if size]
    if dtype.is_floating_point:
        return torch.randn(sizes, dtype=dtype, requires_grad=bool(match.group(3)))
    return torch.zeros(sizes, dtype=dtype)


def find_function(name):
    """Imports module:function, the current folder included."""
    module, _, path = name.partition(":")
    if not path:
        raise SystemExit(f"diptych: got '{name}', expected module:function")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"diptych: {name} can't be imported: {error}") from error
    return found


def write(path, text):
    """Writes a file whole or not at all, and says so."""
    from diptych import _core

    _core.write_file(path, text)
    print(f"wrote {path}")


def capture(options):
    import diptych

    function = find_function(options.function)
    pair = diptych.capture_with(
        diptych.Options(name="capture", partition=options.partition), function, *map(example, options.inputs)
    )
    if options.save:
        diptych.save(pair, options.save)
        print(f"wrote {options.save}")
    if options.html:
        write(options.html, pair.html())
    if not options.save and not options.html:
        print(pair.table() if options.table else pair.code())


def show(options):
    import diptych

    loaded = diptych.load(options.file)
    if options.html:
        write(options.html, loaded.html())
    else:
        print(loaded.table() if options.table else loaded.code())


def check_kernel(options):
    from diptych import _core

    differs, text = _core.check_kernel_file(options.file)
    print(text, end="")
    if differs:
        raise SystemExit(1)


def doctor(_options):
    import torch

    import diptych
    from diptych._torch import check

    print(f"diptych    {diptych.__version__} at {pathlib.Path(diptych.__file__).parent}")
    print(f"torch      {torch.__version__} (built for {check.BUILT_FOR})")
    print(f"python     {platform.python_version()} on {platform.platform()}")
    print(f"backends   {', '.join(diptych.backend_names())}; {diptych.default_backend()} by default")
    print(f"threads    {torch.get_num_threads()}")
    print(f"cuda       {'yes' if torch.cuda.is_available() else 'no'}")
    compiled = diptych.aot_function(lambda x: (x * x).sum())
    x = torch.ones(3, requires_grad=True)
    compiled(x).backward()
    print(f"a capture  {'works' if x.grad.tolist() == [2.0] * 3 else 'is wrong: ' + str(x.grad)}")


def main(arguments=None):
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="diptych", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    one = commands.add_parser("capture", help="capture module:function on inputs of given types")
    one.add_argument("function", help="module:function")
    one.add_argument("inputs", nargs="*", help="types of its inputs, f32[8,16]; a trailing ! asks for the gradient")
    one.add_argument("--partition", default="default", help="default, min_cut or memory_budget(0.5)")
    one.add_argument("--save", metavar="FILE", help="write the pair to a file")
    one.set_defaults(run=capture)
    two = commands.add_parser("show", help="show a saved pair")
    two.add_argument("file")
    two.set_defaults(run=show)
    for command in (one, two):
        command.add_argument("--html", metavar="FILE", help="write a page that draws the graphs")
        command.add_argument("--table", action="store_true", help="print tables and not code")
    three = commands.add_parser("check-kernel", help="run a kernel alone that DIPTYCH_CHECK=kernels wrote to a file")
    three.add_argument("file", help="the .graph file that the error names; .safetensors is beside it")
    three.set_defaults(run=check_kernel)
    commands.add_parser("doctor", help="versions, and whether a capture works").set_defaults(run=doctor)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (RuntimeError, OSError) as error:
        print(f"diptych: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
