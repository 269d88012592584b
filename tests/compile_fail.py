"""Runs a compiler that must refuse its source, in all of these words: compile_fail.py --words <expression>... -- <command>..."""
import re
import subprocess
import sys


def main():
    at = sys.argv.index("--")
    words, command = sys.argv[2:at], sys.argv[at + 1:]
    done = subprocess.run(command, capture_output=True, text=True)
    missing = [expression for expression in words if not re.search(expression, done.stderr, re.DOTALL)]
    if done.returncode == 0 or missing:
        sys.exit(f"{' '.join(command)}\nexited with {done.returncode}, expected an error that says {missing or words}:\n{done.stderr}")


if __name__ == "__main__":
    main()
