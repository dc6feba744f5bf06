"""Includes point one way only: layers_test.py, in the root of the repository."""
import pathlib
import re
import sys

ENGINE = ["include", "src/base", "src/io", "src/cpu", "src/plan", "src/cuda", "src/verify"]
PROGRAM = ["include", "src/base", "src/io", "src/cli", "src/report", "tools"]
# Layer: what it may include in addition to itself (layers, or single files), beginnings of <...> names beyond the standard library and
# POSIX, and its folders from the bottom up ("" = files of its own). The first layer that a file lies below is its own.
LAYERS = {
    "include": ([], [], []),
    "kernels": (["include"], ["cuda", "cub/", "thrust/", "cooperative_groups", "nvtx3/", "mma.h"], []),
    "src/base": (["include"], [], ["", "records", "memory", "run"]),
    "src/io": (["include", "src/base"], [], ["system", "formats", "files", ""]),
    "src/cpu": (["include", "src/base", "src/plan"], [], ["simd", "operands", "output", "rows", "chains", ""]),
    "src/plan": (["include", "src/base", "kernels/tuning.hpp", "kernels/tiles/grid.hpp", "kernels/dense/layout.hpp"], [],
                 ["panels", "inputs", "memory", "models", ""]),
    "src/cuda": (["include", "src/base", "src/plan", "kernels"], ["cuda", "nvtx3/"],
                 ["device", "operands", "output", "arrays", "multipliers", "", "several"]),
    "src/verify": (["include", "src/base"], [], []),
    "src/engine": (ENGINE, [], []),
    "src/mpi": ([*ENGINE, "src/engine"], ["mpi"], []),
    "src/capi": (["include", "src/report/json.hpp"], [], []),
    "src/report": (["include", "src/base", "src/io"], [], []),
    "src/cli": (["include", "src/base", "src/io", "src/report", "src/engine/backend_choice.hpp"], ["cxxopts.hpp"], []),
    "tools/dense": ([*PROGRAM, "src/cuda", "kernels"], ["cuda", "nlohmann/"], []),
    "tools/bench": (PROGRAM, ["nlohmann/"], []),
    "tools/batch": (PROGRAM, ["nlohmann/"], []),
    "tools/mpi": ([*PROGRAM, "src/mpi"], [], []),
    "tools/verify": ([*PROGRAM, "src/verify"], [], []),
    "tools/convert": (PROGRAM, [], []),
    "tools": (PROGRAM, ["nlohmann/"], []),
}
PACKAGES = tuple(beginning for _, packages, _ in LAYERS.values() for beginning in packages)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)', re.MULTILINE)


def layer_of(path):
    return next((layer for layer in LAYERS if path.startswith(layer + "/")), None)


def wing(layer, path):
    """Place of the file's folder from the bottom; the same for all where the folders have no order."""
    wings = LAYERS[layer][2]
    folder = path.removeprefix(layer + "/").rpartition("/")[0].partition("/")[0]
    return wings.index(folder) if folder in wings else len(wings)


def complaint(path, is_quoted, name, known):
    """What is wrong with an include, or None."""
    layer = layer_of(path)
    if layer is None:
        return "belongs to no layer; add its folder to the table of layers"
    allowed, packages, _ = LAYERS[layer]
    folders = (pathlib.PurePosixPath(path).parent, "include", "src", ".")  # where the compiler looks
    target = next((found for folder in folders if (found := (pathlib.PurePosixPath(folder) / name).as_posix()) in known), None)
    if target is None:
        if is_quoted:
            return f'"{name}" is no file of this repository'
        return f"{layer} may not include <{name}>" if name.startswith(PACKAGES) and not name.startswith(tuple(packages)) else None
    other = layer_of(target)
    for is_wrong, words in [
            (not is_quoted, "is a file of this repository: write quotes"),
            (target.endswith(".cuh") and layer != "kernels", "a .cuh stays inside kernels/"),
            (target.endswith((".cpp", ".cu")), "is not a header"),
            (other == layer and wing(layer, target) > wing(layer, path), f"a lower folder of {layer} may not include it"),
            (other != layer and other not in allowed and target not in allowed, f"{layer} may not include it")]:
        if is_wrong:
            return f"{target}: {words}"
    return None


def main():
    known = {path.as_posix() for folder in ("include", "kernels", "src", "tools") for path in pathlib.Path(folder).rglob("*")
             if path.suffix in (".hpp", ".cpp", ".cu", ".cuh", ".h") and path.parts[1] != "python"}  # compiled where XLA's headers are
    found = []
    for path in sorted(known):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            problem = complaint(path, match[1] == '"', match[2], known)
            if problem is not None:
                found.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")
    print("\n".join(found) or f"{len(known)} files")
    # A check that does not fire would find nothing.
    planted = [("include/spmm/io.hpp", '"io/formats/format.hpp"'), ("include/spmm/io.hpp", "<nlohmann/json.hpp>"), ("kernels/x.cu", '"base/text.hpp"'),
               ("src/cuda/x.cpp", '"kernels/warp.cuh"'), ("src/io/system/x.cpp", '"io/formats/format.hpp"'), ("src/plan/x.cpp", '"cpu/none.hpp"'),
               ("src/engine/x.cpp", "<spmm/types.hpp>"), ("tools/gen/x.cpp", "<cxxopts.hpp>"), ("src/base/x.cpp", '"cli/exit_codes.hpp"')]
    silent = [one for one in planted if complaint(one[0], one[1][0] == '"', one[1][1:-1], known) is None]
    for path, name in silent:
        print(f"not noticed: {path} includes {name}")
    sys.exit(1 if found or silent else 0)


main()
