#!/usr/bin/env python3
"""Writes the reference of a Python module as HTML: python_reference.py MODULE FOLDER. Fails on a public name without a docstring."""

import importlib
import inspect
import os
import pydoc
import sys


def public_members(module):
    """Pairs of name and object: what the module offers, and what its own classes define."""
    for name in module.__all__:
        thing = getattr(module, name)
        yield name, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", value


def main():
    name, folder = sys.argv[1:]
    module = importlib.import_module(name)
    # help() leaves errors out.
    module.__all__ += sorted(x for x, thing in vars(module).items() if inspect.isclass(thing) and issubclass(thing, Exception))
    bare = [f"{name}.{member}" for member, thing in public_members(module) if not inspect.getdoc(thing)]
    if not inspect.getdoc(module):
        bare.append(name)
    for member in bare:
        print(f"{member} has no docstring", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.html"), "w", encoding="utf-8") as page:
        page.write(pydoc.html.page(name, pydoc.html.docmodule(module)))
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main())
