"""Makes the wheel as `make wheel` does, looks into it, and uses it as its users do: in an environment of its own, outside the repository.

The wheel holds the library of the build that the test belongs to. The environment holds torch and pytest with what they require;
it has no NumPy and nothing of the repository in it, and no compiler, CMake or Ninja on its PATH."""
import argparse
import functools
import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile

from packaging.requirements import Requirement

PIP = ("-m", "pip", "--disable-pip-version-check")
# Where the package's library looks for its other one, and for torch's.
LIBRARY_FOLDERS = "$ORIGIN:$ORIGIN/../torch/lib:$ORIGIN/../.."
LLVM_LIBRARY = "libdiptych_llvm.so"
BUILD_TOOLS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "clang-19", "clang++-19", "ccache", "cmake", "ninja", "make", "ld")


def run(*command, expect="", status=0, **options):
    """Runs a command without the variables that could lead it to another installation; returns what it printed."""
    without = ("PYTHON", "CC", "CXX", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    environment |= {"OMP_NUM_THREADS": "1", **options.pop("env", {})}
    command = [str(part) for part in command]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != status or expect not in done.stdout:
        sys.exit(f"{' '.join(command)}\nexited with {done.returncode}, expected {status} and '{expect}' in its output:\n{done.stdout}")
    return done.stdout


def check_refusal(options, folder):
    """A build that finds another torch says which one it wants, where, and what to run."""
    shutil.rmtree(folder, ignore_errors=True)
    config = folder / "site-packages" / "torch" / "share" / "cmake" / "Torch"
    config.mkdir(parents=True)
    (config / "TorchConfig.cmake").touch()
    (config / "TorchConfigVersion.cmake").write_text("set(PACKAGE_VERSION 2.12.0)\nset(PACKAGE_VERSION_COMPATIBLE FALSE)\n")
    words = run("cmake", "-G", "Ninja", "-S", options.source, "-B", folder / "build", "-DSKBUILD=2", f"-DCMAKE_CXX_COMPILER={options.compiler}",
                f"-DCMAKE_PREFIX_PATH={folder / 'site-packages'}", status=1)
    for part in ("Diptych needs torch 2.13 to 2.15", "versions that are there: 2.12.0", "pip install torch there", "--no-build-isolation"):
        if part not in " ".join(words.split()):
            sys.exit(f"the refusal of torch 2.12 lacks '{part}':\n{words}")


def check_configuration(options, folder):
    """`pip install` of the source distribution finds the torch of the environment that it installs into, and all else that it compiles with."""
    shutil.rmtree(folder, ignore_errors=True)
    run(options.source / "tools" / "sdist.sh", folder, env={"PYTHON": sys.executable}, expect="sdist: ")
    [archive] = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder)
    source = folder / archive.name.removesuffix(".tar.gz")
    site_packages = pathlib.Path(options.torch_dir).parents[3]
    run("cmake", "-G", "Ninja", "-S", source, "-B", folder / "build", "-DSKBUILD=2", f"-DCMAKE_CXX_COMPILER={options.compiler}", "-DDIPTYCH_PYTHON=ON",
        "-DDIPTYCH_TESTS=OFF", "-DDIPTYCH_EXAMPLES=OFF", f"-DCMAKE_PREFIX_PATH={site_packages}", expect="Configuring done")
    run("ninja", "-C", folder / "build", "-t", "commands", "diptych_python", expect="_core.")


def make_wheel(options, folder):
    shutil.rmtree(folder, ignore_errors=True)
    print(run(options.source / "tools" / "wheel.sh", options.build, folder, env={"PYTHON": sys.executable}, expect="wheel: "))
    [wheel] = folder.glob("*.whl")
    return wheel


def check_contents(wheel, source):
    """The files that should be there, and no others."""
    name, version, *_ = wheel.name.split("-")
    information = f"{name}-{version}.dist-info"
    sources = [file for file in (source / "python" / name).rglob("*") if file.is_file() and file.suffix != ".pyc"]
    expected = {file.relative_to(source / "python").as_posix() for file in sources} | {f"{name}/_build.py", f"{name}/{LLVM_LIBRARY}"}
    expected |= {f"{information}/{file}" for file in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    archive = zipfile.ZipFile(wheel)
    found = set(archive.namelist())
    libraries = {file for file in found if file.startswith(f"{name}/_core.") and file.endswith(".so")}
    if len(libraries) != 1 or found - libraries != expected or not {f"{name}/py.typed", f"{name}/_core.pyi"} <= found:
        sys.exit(f"{wheel.name} lacks {sorted(expected - found)} and has {sorted(found - expected - libraries)}; {len(libraries)} libraries")
    dynamic = run("readelf", "-d", "--wide", archive.extract(*libraries, wheel.parent))
    if [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "PATH)" in line] != [LIBRARY_FOLDERS]:
        sys.exit(f"the library looks elsewhere than in {LIBRARY_FOLDERS}:\n{dynamic}")
    check_llvm(archive.extract(f"{name}/{LLVM_LIBRARY}", wheel.parent))
    python, abi, tag = wheel.stem.split("-")[2:]
    expected = f"cp{sys.version_info.major}{sys.version_info.minor}"
    # A newer compiler's library may ask for more than the tag of systems of 2021 allows.
    tags = ["manylinux_2_34_x86_64"] if is_debian_12() else ["manylinux_2_34_x86_64", sysconfig.get_platform().replace("-", "_").replace(".", "_")]
    if (python, abi) != (expected, expected) or tag not in tags:
        sys.exit(f"{wheel.name} is called for another Python or platform than this one, expected {tags}")


def is_debian_12():
    system = platform.freedesktop_os_release()
    return (system["ID"], system.get("VERSION_ID"), platform.machine()) == ("debian", "12", "x86_64")


def check_llvm(library):
    """LLVM is in its library: it wants no other than C++'s and shows no symbol of its own, which another LLVM's could be taken for."""
    wanted = re.findall(r"Shared library: \[(.*?)\]", run("readelf", "-d", "--wide", library))
    if foreign := [name for name in wanted if not re.match(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux-\S+)\.so", name)]:
        sys.exit(f"{LLVM_LIBRARY} wants {foreign}, which a system need not have")
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    if shown := [symbol for symbol in symbols if "llvm" in symbol.lower() and "diptych" not in symbol]:
        sys.exit(f"{LLVM_LIBRARY} shows {shown[:5]}")


def closure(names):
    """The installed distributions of these names and of all that they require here, that of the extras that are asked for included, as torch for CUDA
    asks for its libraries."""
    found, waiting = {}, [(name, "") for name in names]
    seen = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found.setdefault(name, importlib.metadata.distribution(name))
        for one in map(Requirement, found[name].requires or []):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(one.name, wanted) for wanted in ("", *one.extras)]
    return list(found.values())


def link(distribution, site_packages):
    """Puts the files of a distribution into another environment, as links: torch has half a gigabyte, and pip takes two minutes for it."""
    for file in distribution.files:
        if ".." in file.parts:  # scripts are not used
            continue
        target = site_packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file.locate(), target)
        except OSError:  # another file system
            shutil.copy2(file.locate(), target)


def make_environment(folder):
    """An environment with torch and pytest in it, those that run this, and without Diptych."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    [site_packages] = folder.glob("lib/python*/site-packages")
    for distribution in closure(["torch", "pytest"]):
        link(distribution, site_packages)
    return python


SESSION = """
    import diptych, torch
    loss = diptych.aot_function(lambda w, x: torch.tanh(x @ w).square().mean(), partition="min_cut")
    w = torch.ones(3, 2, requires_grad=True)
    loss(w, torch.ones(4, 3)).backward()
    print(tuple(w.grad.shape), loss, diptych.__file__)
"""


def use(python, wheel, tests, outside):
    """The package of the wheel, from a folder that knows nothing of the repository, without anything that could compile."""
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir(parents=True)
    path = str(python.parent)
    if tools := [tool for tool in BUILD_TOOLS if shutil.which(tool, path=path)]:
        sys.exit(f"{path} has {tools} in it, so that the test would say nothing of an environment without them")
    run_there = functools.partial(run, cwd=outside, env={"PATH": path})
    run_there(python, "-c", "import diptych", status=1, expect="No module named 'diptych'")
    run_there(python, *PIP, "install", "--no-index", wheel)  # so its requirements are met by what is there
    run_there(python, *PIP, "check")
    printed = run_there(python, "-c", textwrap.dedent(SESSION), expect="(3, 2) <compiled <lambda>: 1 captures, 0 hits>")
    if str(python.parent.parent) not in printed:
        sys.exit(f"another installation was imported: {printed}")
    command = python.with_name("diptych")
    run_there(command, "doctor", expect="a capture  works")
    (outside / "model.py").write_text("def f(x, w):\n    return (x @ w).tanh().sum()\n")
    run_there(command, "capture", "model:f", "f32[3,4]", "f32[4,2]!", expect="graph backward")
    run_there(command, "show", "none.dp", status=1, expect="No such file")
    for test in tests:
        shutil.copy(test, outside)
    # Not by the repository's options; and what starts another process to import Dynamo there says nothing of the package.
    print(run_there(python, "-m", "pytest", "-c", os.devnull, "-q", "-p", "no:cacheprovider", "-k", "not first_use_of_dynamo", outside, expect=" passed"))
    run_there(python, *PIP, "uninstall", "--yes", "diptych")
    if left := list(python.parent.parent.glob("lib/python3*/site-packages/diptych*")):
        sys.exit(f"the uninstalled package left {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the repository")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a scratch folder")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder, in which diptych_python is built")
    parser.add_argument("--torch-dir", required=True, help="where TorchConfig.cmake is")
    parser.add_argument("--compiler", required=True)
    options = parser.parse_args()
    check_refusal(options, options.work / "refusal")
    check_configuration(options, options.work / "configuration")
    wheel = make_wheel(options, options.work / "wheels")
    check_contents(wheel, options.source)
    python = make_environment(options.work / "environment")
    tests = options.source / "tests" / "python"
    use(python, wheel, [tests / "compiled_beside_eager.py", tests / "functions" / "test_functions.py", tests / "exchange" / "test_stubs.py", tests / "exchange" / "test_dynamo.py"], options.work / "outside")


if __name__ == "__main__":
    main()
