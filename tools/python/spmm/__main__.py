"""python3 -m spmm convert: matrices of NumPy and SciPy to files of blocks, and back."""

from __future__ import annotations

import argparse
import fractions
import math
import os
import re
import signal
import sys
import time
from typing import Any, List, NoReturn, Optional, Tuple

from . import _convert, _library
from ._errors import Error, FormatError, InputError, OutputError, ShapeError, UsageError

NAME = "python3 -m spmm convert"
EXIT_CODES = [(UsageError, 2), (FormatError, 65), (ShapeError, 65), (InputError, 66), (OutputError, 73), (OSError, 74),
              (MemoryError, 71), (KeyboardInterrupt, 75)]
NOTES = """\
IN is known by its content. What NumPy or SciPy wrote becomes a file of blocks (.bin), a file of blocks becomes
  OUT.npy   a dense NumPy array with two dimensions; read: integers, floats up to 64 bits or bool, of either byte order
  OUT.npz   what scipy.sparse.save_npz writes: bsr, or coo where --shape cuts through blocks; read: also csr and csc
Matrix Market files (.mtx) are converted by spmm-convert. .npz needs SciPy.

To .bin: elements that are stored several times are added up, exactly. A sum, times --scale, must be a whole number from
0 to 65535. Any other is an error that names the place, and nothing is written, unless --round or --on-overflow saturate
is given: the line at the end counts what they changed. Rectangular matrices are padded with zeros to a square. Both
operands of a product need one n and one m: convert the second with --like FIRST.bin, or both with the same --n and
--block. --block auto takes the side of 1 to 16, 32 and 64 whose file is the shortest.

Nothing in IN is unpickled. Memory: the arrays of IN, unpacked, 144 bytes for each element other than zero, and those of
OUT. What needs more than --memory-limit, or than the machine and its control groups leave, is refused. OUT appears under
its name when it is complete.

Exit codes: 0 written, 2 usage, 65 IN breaks its format or has elements that do not fit, 66 no such file, 71 memory,
73 cannot create OUT, 74 reading or writing failed, 75 interrupted (nothing was written).
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError("command line", message, f"see {NAME} --help")


def _scale(given: str) -> float:
    try:
        value = float(fractions.Fraction(given))  # "0.5", "1e3", "1/256"
    except (ValueError, ZeroDivisionError, OverflowError):
        value = 0
    if value == 0 or not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"\"{given}\" is not a factor such as 256, 0.5 or 1/256")
    return value


def _count(largest: int, word: Optional[str] = None) -> Any:
    def parse(given: str) -> Any:
        if given == word:
            return given
        if not re.fullmatch("[0-9]{1,10}", given) or not 1 <= int(given) <= largest:
            raise argparse.ArgumentTypeError(f"\"{given}\" is not a number from 1 to {largest}")
        return int(given)
    return parse


def _shape(given: str) -> Tuple[int, int]:
    rows, _, columns = given.partition("x")
    side = _count(_convert.MAX_N)
    return side(rows), side(columns)


def _bytes(given: str) -> int:
    try:
        return _library.size_in_bytes("--memory-limit", given)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def _text(path: str) -> str:
    """Of a file of the system; "" if it is not there."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def free_memory(root: str = "/") -> int:
    """Bytes that the machine and the control groups of this process leave, whichever is less; 1 GB if nothing tells."""
    found = re.search(r"MemAvailable: *([0-9]+) kB", _text(f"{root}proc/meminfo"))
    free = [int(found[1]) * 1024] if found else []
    group = re.search("^0::(.*)$", _text(f"{root}proc/self/cgroup"), re.MULTILINE)
    names = group[1].strip("/").split("/") if group else []
    for level in range(len(names) + 1):
        folder = os.path.join(f"{root}sys/fs/cgroup", *names[:level])
        pages = re.findall("^(?:in)?active_file ([0-9]+)$", _text(f"{folder}/memory.stat"), re.MULTILINE)
        taken = int(_text(f"{folder}/memory.current") or 0) - sum(map(int, pages))
        limits = (_text(f"{folder}/memory.{name}").strip() for name in ("max", "high"))
        free += [max(int(limit) - max(taken, 0), 1) for limit in limits if limit.isdigit()]
    return min(free, default=10**9)


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=NAME, description=__doc__, epilog=NOTES, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("input", metavar="IN")
    add("output", metavar="OUT")
    add("--scale", type=_scale, default=1.0, metavar="X", help="multiply all elements by this number, such as 256 or 1/256")
    add("--memory-limit", type=_bytes, metavar="SIZE", help="host memory of the conversion; default: 90 %% of what is free")
    add("-q", "--quiet", action="store_true", help="print nothing on success")
    to = parser.add_argument_group("to .bin")
    to.add_argument("--block", type=_count(64, "auto"), metavar="M",
                    help="side of the blocks, 1 to 64, or auto (default: as IN or --like has it, else auto)")
    to.add_argument("--n", type=_count(_convert.MAX_N), metavar="N", help="pad with zeros to N rows and columns")
    to.add_argument("--like", metavar="FILE", help="pad to the size, and use the block side, of this .bin")
    to.add_argument("--round", action="store_true", default=None,
                    help="round fractions to the nearest whole number (of two, to the even one)")
    to.add_argument("--on-overflow", choices=["error", "saturate"],
                    help="elements below 0 or above 65535: error, or saturate to these")
    out = parser.add_argument_group("from .bin")
    out.add_argument("--shape", type=_shape, metavar="RxC",
                     help="rows and columns to cut out; what lies outside must be zero")
    out.add_argument("--dtype", choices=["int64", "uint32", "uint16", "float64"], help="default: int64, with --scale float64")
    out.add_argument("--deflate", action="store_true", default=None, help=".npz: compress")
    return parser


def _complete(options: argparse.Namespace) -> None:
    """Errors: UsageError, InputError."""
    given, ending = (os.path.splitext(path)[1] for path in (options.input, options.output))
    options.kind = _convert.kind_of_input(options.input)
    if options.kind == "bin" and given in (".npy", ".npz") and ending not in (".npy", ".npz"):
        options.kind = given[1:]  # a damaged one
    options.makes_bin = options.kind != "bin"
    if options.makes_bin == (ending in (".npy", ".npz")) or ending == ".mtx":
        raise UsageError(options.output, f"cannot be made from a .{options.kind}",
                         "give a name that ends with " + (".bin" if options.makes_bin else ".npy or .npz; spmm-convert writes .mtx"))
    options.kind = options.kind if options.makes_bin else ending[1:]
    others = ["shape", "dtype", "deflate"] if options.makes_bin else ["block", "n", "like", "round", "on_overflow"]
    for name in others + (["deflate"] if options.kind == "npy" else []):
        if getattr(options, name) is not None:
            raise UsageError("--" + name.replace("_", "-"), f"means nothing for {options.input} and {options.output}", "leave it out")
    for given in filter(None, (options.input, options.like)):
        if os.path.exists(options.output) and os.path.exists(given) and os.path.samefile(given, options.output):
            raise UsageError(options.output, "is an input", "give the output another name")
    if options.n and options.like:
        raise UsageError("--n", "and --like both say the size", "give one of them; two rectangles fit "
                         "if --n of the first is at least the rows and columns of both, and the second has --like FIRST.bin")
    if options.scale != 1 and options.dtype not in (None, "float64"):
        raise UsageError("--scale", "makes fractions of the elements", "give --dtype float64 with it")
    options.dtype = options.dtype or ("int64" if options.scale == 1 else "float64")
    options.memory_limit = options.memory_limit or free_memory() // 10 * 9


def _words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted: nothing was written"
    if isinstance(error, MemoryError) and not isinstance(error, Error):
        return "memory: the system has no more; convert a smaller matrix, or use a machine with more memory"
    return str(error) if isinstance(error, (Error, OSError)) else f"internal error: {error!r}; please report this as a bug"


def _printable(text: str) -> str:
    """What a terminal may show of names: bytes of others, and control characters, become \\xNN."""
    return "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(c)) for c in text)


def main(arguments: List[str]) -> int:
    """Returns the exit code."""
    if not arguments or arguments[0] != "convert":
        print("usage: python3 -m spmm convert [options] IN OUT; --help lists the options", file=sys.stderr)
        return 0 if arguments in (["--help"], ["-h"]) else 2
    try:
        options = make_parser().parse_args(arguments[1:])
        _complete(options)
        start = time.monotonic()
        summary = (_convert.to_bin if options.makes_bin else _convert.from_bin)(options)
        if not options.quiet:
            print(_printable(f"{options.output}: {summary}, in {time.monotonic() - start:.3g} s"))
        return 0
    except (Exception, KeyboardInterrupt) as error:
        print(f"{NAME}: error: {_printable(_words(error))}", file=sys.stderr)
        return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 70)


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)
    sys.exit(main(sys.argv[1:]))
