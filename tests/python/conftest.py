"""Makes this folder importable for the tests in its folders: they share beside_eager.py."""
