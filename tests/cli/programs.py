"""Runs the programs of a build in fresh folders: matrices, exit codes, reports. The standard library is enough."""
import array
import functools
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import tempfile
import time
import typing
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SPMM_TEST_BIN", SOURCE / "build/bin"))
FAULTY = pathlib.Path(os.environ.get("SPMM_TEST_FAULTY", SOURCE / "build/tests/faulty"))  # programs with faults on request

OK, NEGATIVE, USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE = 0, 1, 2, 65, 66, 69
MEMORY, CANNOT_CREATE, IO_ERROR, INTERRUPTED, SATURATED = 71, 73, 74, 75, 76
LIMIT = 2**32 - 1
OLD = b"the output of an earlier run"
PATIENCE = 300  # seconds: against hangs, also on a busy machine


class Result(typing.NamedTuple):
    """Values: code = exit code, or minus the signal that ended the program."""
    code: int
    out: str
    err: str
    peak_bytes: int = 0  # at least that of these tests, a property of Linux


class Program(subprocess.Popen):
    """A running program; the variables SPMM_* of these tests are not handed on. `words[0]` is a name in BIN, or a path."""

    def __init__(self, *words, env=None, stdin=b"", cwd=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPMM_")}
        self.streams = [tempfile.TemporaryFile() for _ in range(3)]
        self.streams[0].write(stdin)
        self.streams[0].seek(0)
        super().__init__([str(BIN / words[0]), *map(str, words[1:])], env={**environment, **(env or {})}, cwd=cwd,
                         stdin=self.streams[0], stdout=self.streams[1], stderr=self.streams[2])

    def result(self, timeout=PATIENCE):
        with os.fdopen(os.pidfd_open(self.pid)) as end:
            if not select.select([end], [], [], timeout)[0]:
                os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in self.streams[1:]:
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "surrogateescape"))
        for stream in self.streams:
            stream.close()
        return Result(self.returncode, *texts, usage.ru_maxrss * 1024)

    def wait_until_handled(self, number=signal.SIGTERM):
        """Until the program handles the signal (before that it would just end), or has ended."""
        wait_for(lambda: self.handles(number))

    def handles(self, number):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return "\nState:\tZ" in status or int(status.split("\nSigCgt:")[1].split()[0], 16) >> (number - 1) & 1

    def children(self):
        return children_of(self.pid)


def children_of(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def wait_for(condition, seconds=120):
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError("what a test waits for does not come")
        time.sleep(0.0005)


def run(*words, **how):
    return Program(*words, **how).result()


def shell(script, timeout=PATIENCE):
    return Program("/bin/sh", "-c", script).result(timeout)


def has_program(name):
    return shutil.which(name) is not None


class Matrix:
    """Values: blocks = [(i, j, elements)] in the order of the file; kind "H" = operands of 16 bits, "I" = results of 32."""

    def __init__(self, n, m, blocks, kind="H"):
        self.n, self.m, self.blocks, self.kind = n, m, blocks, kind

    def __eq__(self, other):
        return vars(self) == vars(other)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(header(self.n, self.m, len(self.blocks)))
            for i, j, elements in self.blocks:
                file.write(array.array("I", (i, j)).tobytes() + array.array(self.kind, elements).tobytes())

    @classmethod
    def read(cls, path, kind="H"):
        data = pathlib.Path(path).read_bytes()
        n, m, count = array.array("I", data[:12])
        record = record_bytes(m, kind)
        assert len(data) == 12 + count * record, path
        blocks = []
        for at in range(12, len(data), record):
            blocks.append((*array.array("I", data[at:at + 8]), array.array(kind, data[at + 8:at + record]).tolist()))
        return cls(n, m, blocks, kind)

    def sorted(self):
        return Matrix(self.n, self.m, sorted(self.blocks), self.kind)

    def transposed(self):
        m = self.m
        blocks = [(j, i, [elements[c * m + r] for r in range(m) for c in range(m)]) for i, j, elements in self.blocks]
        return Matrix(self.n, m, blocks, self.kind)

    def changed(self, change):
        """A copy whose list of blocks `change` has changed."""
        copy = Matrix(self.n, self.m, [(i, j, list(elements)) for i, j, elements in self.blocks], self.kind)
        change(copy.blocks)
        return copy


def header(n, m, count):
    return array.array("I", (n, m, count)).tobytes()


def record_bytes(m, kind="H"):
    return 8 + m * m * array.array(kind).itemsize


@functools.cache
def random_matrix(n, m, count, largest, seed):
    """Blocks at distinct places in random order."""
    source = random.Random(seed)
    places = source.sample(range((n // m)**2), count)
    return Matrix(n, m, [(x // (n // m), x % (n // m), source.choices(range(largest + 1), k=m * m)) for x in places])


def pairs_of(a, b):
    return [(x, y) for x in a.blocks for y in b.blocks if x[1] == y[0]]


@functools.cache
def product_of(a, b):
    """The definition: exact sums, clamped; no block of zeros."""
    m, sums = a.m, {}
    for (i, _, left), (_, j, right) in pairs_of(a, b):
        to = sums.setdefault((i, j), [0] * (m * m))
        for r in range(m):
            for c in range(m):
                to[r * m + c] += sum(left[r * m + k] * right[k * m + c] for k in range(m))
    blocks = [(i, j, [min(x, LIMIT) for x in to]) for (i, j), to in sorted(sums.items()) if any(to)]
    return Matrix(a.n, m, blocks, "I")


Matrix.__hash__ = object.__hash__  # matrices that are cached are not changed


def bytes_of(path):
    return pathlib.Path(path).read_bytes() if os.path.exists(path) else b""


def write(path, content):
    pathlib.Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems(schema, value, root=None, at=""):
    """What of a JSON value breaks a schema of data/schemas. Stricter than JSON Schema: no key that is not named."""
    root = root or schema
    unknown = set(schema) - {"$schema", "title", "description", "$defs", "$ref", "anyOf", "type", "const", "enum", "properties",
                             "required", "additionalProperties", "items", "minimum"}
    found = [f"{at}: the schema has {unknown}, which are not checked"] if unknown else []
    if "$ref" in schema:
        return found + problems(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root, at)
    if "anyOf" in schema:
        return found + min((problems(one, value, root, at) for one in schema["anyOf"]), key=len)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = kinds.get(schema.get("type"), object)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        return found + [f"{at}: is no {schema['type']}: {value}"]
    if value != schema.get("const", value) or value not in schema.get("enum", [value]) or ("minimum" in schema and value < schema["minimum"]):
        found.append(f"{at}: {value} is not allowed")
    if isinstance(value, list):
        for x, item in enumerate(value):
            found += problems(schema.get("items", {}), item, root, f"{at}/{x}")
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, member in value.items():
            if key not in known and others is None and known:
                found.append(f"{at}/{key}: is not known")
            found += problems(known.get(key, others if isinstance(others, dict) else {}), member, root, f"{at}/{key}")
        found += [f"{at}/{key}: is missing" for key in schema.get("required", []) if key not in value]
    return found


def parse_report(schema, text):
    report = json.loads(text)
    found = problems(json.loads((SOURCE / f"data/schemas/{schema}.schema.json").read_text(encoding="utf-8")), report)
    assert not found, found
    return report


def read_report(path="r.json", schema="report"):
    return parse_report(schema, bytes_of(path))


class Place(unittest.TestCase):
    """Each test has a fresh working folder, which other users may write to."""

    def setUp(self):
        before = os.getcwd()
        folder = tempfile.mkdtemp(prefix="spmm-tests-")
        os.chmod(folder, 0o777)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.addCleanup(os.chdir, before)
        os.chdir(folder)

    def expect(self, code, result, *parts):
        """The exit code, and that the output has these parts. Returns the result."""
        self.assertEqual(result.code, code, result)
        for part in parts:
            self.assertIn(part, result.out + result.err)
        return result

    def names(self, *known):
        return sorted(set(os.listdir(".")) - set(known))


class Workplace(Place):
    """With the operands a.bin and b.bin (n 64, m 4) and an earlier output old.bin."""
    a = random_matrix(64, 4, 60, 65535, 1)
    b = random_matrix(64, 4, 70, 65535, 2)

    def setUp(self):
        super().setUp()
        self.a.write("a.bin")
        self.b.write("b.bin")
        write("old.bin", OLD)

    def expected(self):
        """Bytes of the product."""
        product_of(self.a, self.b).write("expected.bin")
        return bytes_of("expected.bin")


def cpu(*words, **how):
    """spmm without a summary, on the CPU."""
    return run("spmm", "-q", "--backend", "cpu", *words, **how)
