#!/usr/bin/env python3
"""Writes data/digits.csv from scikit-learn's handwritten digits (load_digits).

Needs scikit-learn in the running Python; nothing else here does. Run pip install scikit-learn in any environment.
Each line is one 8x8 image: 64 grey values 0..16 row by row, then the digit that it shows.
"""
import argparse
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "data" / "digits.csv"
    parser.add_argument("--out", type=Path, default=default, help=f"file to write (default {default})")
    args = parser.parse_args()
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("convert_digits.py: scikit-learn is missing; run: pip install scikit-learn")
    digits = load_digits()
    rows = (",".join(str(int(x)) for x in [*image, label]) for image, label in zip(digits.data, digits.target))
    args.out.write_text("\n".join(rows) + "\n", encoding="ascii")
    print(f"{args.out}: {len(digits.target)} images, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
