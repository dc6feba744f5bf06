"""Whether this Python has packages in versions that the tests know: packages.py NAME... If not: a line why, and exit code 1."""
import importlib
import re
import sys

# From the first version that works to the major version after the newest one that was tried.
KNOWN = {"numpy": ((1, 20), 3), "scipy": ((1, 8), 2), "matplotlib": ((3, 0), 4)}
PYTHON = (3, 9)


def problem(name):
    """None where the package can be used."""
    if sys.version_info < PYTHON:
        return "Python %d.%d is too old" % sys.version_info[:2]
    try:
        package = importlib.import_module(name)
        if name == "scipy":
            importlib.import_module("scipy.sparse")
    except Exception as error:  # also one that was built for another NumPy
        last = (str(error).strip().splitlines() or [""])[-1]
        return f"{name} cannot be imported ({type(error).__name__}: {last})"
    oldest, too_new = KNOWN[name]
    found = tuple(int(part) for part in re.findall(r"\d+", package.__version__)[:2])
    if found < oldest:
        return f"{name} {package.__version__} is too old: {'.'.join(map(str, oldest))} or newer"
    if found[0] >= too_new:
        return f"{name} {package.__version__} is newer than what these tests know: below {too_new}"
    return None


def main():
    problems = [line for line in map(problem, sys.argv[1:]) if line is not None]
    print("; ".join(problems) or ", ".join(f"{name} {sys.modules[name].__version__}" for name in sys.argv[1:]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
