"""Whether this Python has packages in versions that the tests know: packages.py NAME... If not: a line why, and exit code 1."""
import importlib
import re
import sys

# From the first version that works to the major version after the newest one that was tried.
KNOWN = {"numpy": ((1, 20), 3), "scipy": ((1, 8), 2), "matplotlib": ((3, 0), 4)}


def problem(name):
    """None where the package can be used."""
    try:
        package = importlib.import_module(name)
        importlib.import_module("scipy.sparse" if name == "scipy" else name)
    except Exception as error:  # also one that was built for another NumPy
        return f"{name} cannot be imported ({' '.join(repr(error).split())})"
    oldest, too_new = KNOWN[name]
    found = tuple(int(part) for part in re.findall(r"\d+", package.__version__)[:2])
    return None if oldest <= found < (too_new, 0) else f"{name} {package.__version__} is not between {oldest} and {too_new}"


if __name__ == "__main__":
    problems = [line for line in map(problem, sys.argv[1:]) if line is not None]
    print("; ".join(problems) or ", ".join(f"{name} {sys.modules[name].__version__}" for name in sys.argv[1:]))
    sys.exit(1 if problems else 0)
