"""Matrices in device memory. Without a GPU: what is found before one is needed, on arrays that pretend the protocol."""

import ctypes
import gc
import os
import subprocess
import sys
import unittest
import weakref

import numpy as np
import spmm
from spmm import _device, _dlpack, _many
from spmm._blocks import _Places
from support import as_dense, exact_product, needs_scipy, sp

try:
    import torch
    HAS_TORCH = torch.cuda.is_available()
except ImportError:
    HAS_TORCH = False
try:
    import cupy
    import cupyx.scipy.sparse as cupy_sparse
    HAS_CUPY = cupy.cuda.runtime.getDeviceCount() > 0
except Exception:  # pylint: disable=broad-except  # an installed CuPy without a driver raises errors of its own
    HAS_CUPY = False


class Pretended:
    """Host memory with the protocol of device memory."""

    def __init__(self, array, **changed):
        self.array = array
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3, **changed}


def pretended(data=None, indptr=None, **changed):
    return (Pretended(np.array([0, 1, 2], dtype=np.int32) if indptr is None else indptr),
            Pretended(np.array([0, 1], dtype=np.int32)),
            Pretended(np.ones((2, 4, 4), dtype=np.uint16) if data is None else data, **changed))


class Bits:
    """A tensor of int16 as uint16, which not every PyTorch has."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "typestr": "<u2"}


def as_tensor(array):
    """An array of a result; elements as int64."""
    if not isinstance(array, spmm.DeviceArray):
        return array
    tensor = torch.from_dlpack(array)
    return tensor.view(torch.int32).to(torch.int64) & 0xFFFFFFFF if array.typestr == "<u4" else tensor


def stacked(count):
    """As many matrices of 2 x 2 blocks."""
    return tuple(Pretended(np.broadcast_to(x.array, (count, *x.array.shape)).copy()) for x in pretended())


def joined(arrays):
    """Arrays of a stacked batch, one matrix behind another."""
    return tuple(Pretended(x.array.reshape(-1, *x.array.shape[2:])) for x in arrays)


def made_array(data, device=_dlpack.CPU):
    """An array as results have them, of host memory."""
    return _dlpack.DeviceArray(None, data.ctypes.data, data.shape, data.dtype.str, (device, 0))


pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


class Held:
    """Hands a capsule out whose deleter counts its calls."""

    def __init__(self, data, versioned):
        self.capsule = made_array(data).__dlpack__(max_version=(1, 0) if versioned else None)
        self.calls = 0
        managed = pointer_of(self.capsule, b"dltensor_versioned" if versioned else b"dltensor")
        place = ctypes.c_void_p.from_address(managed + (16 if versioned else 56))
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        original = kind(place.value)

        def deleter(which):
            self.calls += 1
            original(which)

        self.keep = kind(deleter)
        place.value = ctypes.cast(self.keep, ctypes.c_void_p).value

    def __dlpack_device__(self):
        return (_dlpack.CPU, 0)

    def __dlpack__(self, **_):
        capsule, self.capsule = self.capsule, None
        return capsule


def random_blocks(rows, cols, side, seed, largest):
    """A dense matrix of blocks, most of which are zero."""
    generator = np.random.default_rng(seed)
    stored = generator.random((rows // side, cols // side)) < 0.2
    return np.kron(stored, np.ones((side, side), dtype=np.int64)) * generator.integers(0, largest + 1, (rows, cols))


class Refusals(unittest.TestCase):
    def test_arrays_that_are_wrong_say_which(self):
        good = pretended()
        for bad, text in ((pretended(np.ones((2, 4, 4), dtype=np.float32)), "pass uint16"),
                          (pretended(np.ones((2, 4, 3), dtype=np.uint16)), "of shape"),
                          (pretended(np.ones((3, 4, 4), dtype=np.uint16)), "lengths"),
                          (pretended(indptr=np.array([0, 1, 2], dtype=np.int64)), "int32"),
                          (pretended(strides=(64, 2, 8)), "not contiguous"),
                          ((np.zeros(3, dtype=np.int32), *good[1:]), "no __cuda_array_interface__")):
            with self.subTest(text), self.assertRaisesRegex(spmm.FormatError, text):
                spmm.multiply(bad, good, dtype="uint32")
        with self.assertRaisesRegex(spmm.FormatError, "on the host"):
            spmm.multiply(good, np.ones((8, 8)))
        with self.assertRaisesRegex(spmm.UsageError, "do not go with matrices on a device"):
            spmm.multiply(good, good, verify="full")

    def test_plans_are_for_matrices_of_torch_and_cupy(self):
        for given in np.eye(2), pretended():
            with self.assertRaisesRegex(spmm.UsageError, "is for tensors of PyTorch and matrices of CuPy on a GPU"):
                spmm.plan(given, given)

    def test_memory_of_the_host_is_refused(self):
        with self.assertRaises(spmm.DeviceError):
            spmm.multiply(pretended(), pretended())

    def test_many_products(self):
        good = (pretended(), pretended())
        for bad, text in (([good, pretended()], "product 1: is a tuple; give pairs"), ([1], "product 0: is a int"),
                          ([good, (pretended(), np.eye(2))], "matrix B, product 1: is of another library"),
                          ([good, (pretended(strides=(64, 2, 8)), good[0])], "matrix A, product 1, data: the array is not")):
            with self.subTest(text), self.assertRaisesRegex(spmm.Error, text):
                spmm.multiply_many(bad)
        with self.assertRaises(spmm.DeviceError):  # memory of the host
            spmm.multiply_many([good] * 10)
        self.assertEqual(spmm.multiply_many([]), [])
        with self.assertRaisesRegex(spmm.UsageError, "is closed"):
            engine = spmm.Engine()
            engine.close()
            engine.multiply_many([good])

    def test_batches_that_are_wrong_say_where(self):
        good = stacked(5)
        for bad, text in ((good[:1] + stacked(4)[1:], "matrix B: the lengths"), (good[:2] + (Pretended(good[2].array[0]),),
                                                                                 r"pass \(products, blocks, m, m\)"),
                          ((*good[:2], Pretended(good[2].array[..., :0, :0])), r"of shape \(5, 2, 0, 0\)"),
                          ((*good, (12, 8)), "matrix B: the lengths"), (stacked(4), "are 5 and 4 products"),
                          (np.eye(4), "on the host")):
            with self.subTest(text), self.assertRaisesRegex(spmm.Error, text):
                spmm.multiply_many(good, bad)
        with self.assertRaisesRegex(spmm.UsageError, "or two batches"):
            spmm.multiply_many((good, good))
        with self.assertRaises(spmm.DeviceError):  # memory of the host
            spmm.multiply_many(good, good)
        with self.assertRaisesRegex(spmm.FormatError, "matrix A, cols: found 0"):
            spmm.multiply_many((*good, (8, 0)), good)
        none = spmm.multiply_many(stacked(0), stacked(0))
        self.assertEqual((len(none), none.first_row.tolist(), none.first_block.tolist(), none.saturated_elements), (0, [0], [0], 0))

    def test_batches_describe_the_same_as_pairs(self):
        generator = np.random.default_rng(1)
        for index, side in ((np.int32, 1), (np.int64, 4)):
            alike = [(np.arange(4, dtype=index) * 2, generator.integers(0, 3, 6).astype(index),
                      generator.integers(0, 9, (6, side, side)).astype(np.uint16)) for _ in range(7)]
            arrays = tuple(Pretended(np.stack(parts)) for parts in zip(*alike))
            offsets = np.arange(8)[:, None] * [4, 6, 6]
            shape = (3 * side, 5 * side)
            self.check_table((*arrays, shape), joined(arrays), offsets, [shape] * 7)
            none = tuple(x if x is arrays[0] else Pretended(x.array[:, :0]) for x in arrays)  # no blocks
            self.check_table((*none, shape), joined(none), np.arange(8)[:, None] * [4, 0, 0], [shape] * 7)

    @staticmethod
    def table_of(call):
        """An entry for each matrix that a call describes."""
        table = np.zeros((call._stacks.num_products, 2), dtype=_many._MATRIX)
        for side, name in enumerate("ab"):
            first, strides = getattr(call._stacks, name).contents, getattr(call._stacks, f"{name}_strides")
            for field in table.dtype.names:
                table[field][:, side] = getattr(first, field)
            for field, item in (("indptr", first.index_bits // 8), ("indices", first.index_bits // 8), ("data", 2)):
                table[field][:, side] += np.arange(len(table), dtype=np.uint64) * np.uint64(getattr(strides, field) * item)
        return table.reshape(-1)

    def check_table(self, batch, arrays, offsets, shapes):
        """Against one tuple of slices for each matrix."""
        single = [(*(Pretended(x.array[begin:end]) for x, begin, end in zip(arrays, first, last)), tuple(map(int, shape)))
                  for first, last, shape in zip(offsets[:-1].tolist(), offsets[1:].tolist(), shapes)]
        by_pairs, by_batch = _many.ManyCall(list(zip(single, single))), _many.ManyCall(batch, batch)
        np.testing.assert_array_equal(self.table_of(by_batch), by_pairs.table)
        np.testing.assert_array_equal(by_batch._shapes, by_pairs._shapes)

    def test_memory_of_other_libraries(self):
        made = {}

        def make(num_bytes, stream):
            if num_bytes > 100:
                raise MemoryError("no such memory")
            owner = np.empty(num_bytes, dtype=np.uint8)
            made[stream] = weakref.ref(owner)
            return owner, owner.ctypes.data

        memory = _device.Memory(make, True)
        result, workspace = memory.allocate(None, 8, 1, None), memory.allocate(None, 8, 1, 7)
        self.assertIsNone(memory.allocate(None, 101, 1, 7))
        kept = memory.take(result)
        self.assertEqual([type(x) for x in memory.failed()], [MemoryError])
        memory.release(None, result, None)  # of a result that is taken
        self.assertEqual((kept.ctypes.data, made[7]().ctypes.data), (result, workspace))
        memory.release(None, workspace, 7)
        self.assertIsNone(made[7]())
        alone = _device.Memory(make, False)
        alone.allocate(None, 8, 1, 3)
        alone.failed()
        self.assertIsNone(made[3]())
        with self.assertRaisesRegex(spmm.UsageError, 'workspace: .*give "engine" or "caller"'):
            spmm.Engine(workspace="mine")
        with spmm.Engine(workspace="caller") as engine:
            engine.trim()
            with self.assertRaises(spmm.DeviceError):
                engine.multiply(pretended(), pretended())
        spmm.trim()
        with self.assertRaisesRegex(spmm.UsageError, "is closed"):
            engine.trim()

    def test_lists_and_sides_that_are_not_square(self):
        with self.assertRaisesRegex(spmm.UsageError, "matrix B: is a list; .*multiply_many takes a list of pairs"):
            spmm.multiply(np.eye(2), [[1, 2], [3, 4]])
        with self.assertRaisesRegex(spmm.UsageError, r"blocksize: is \(2, 4\)"):
            spmm.multiply(np.eye(8), np.eye(8), blocksize=(2, 4))
        c = spmm.multiply(np.eye(8), np.eye(8), blocksize=(4, 4))
        self.assertEqual(c.data.shape, (2, 4, 4))


class Sharing(unittest.TestCase):
    """Arrays of others, and results for them by DLPack, on memory of the host."""

    def test_arrays_that_others_give(self):
        for dtype in (np.int32, np.int64, np.uint16):
            data = np.arange(24, dtype=dtype).reshape(2, 3, 4)
            self.assertEqual(_dlpack.describe(Pretended(data), "x")[:3], (data.ctypes.data, (2, 3, 4), data.dtype.str))

    def test_arrays_for_others(self):
        data = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
        array = made_array(data)
        np.testing.assert_array_equal(np.from_dlpack(array), data)
        np.testing.assert_array_equal(np.from_dlpack(array[1:]), data[1:])
        self.assertEqual((len(array[2:]), array[:1].shape), (0, (1, 3, 4)))
        with self.assertRaises(IndexError):
            array[::2]
        self.assertIn('"dltensor"', str(array.__dlpack__(max_version=(0, 8))))
        self.assertIn('"dltensor_versioned"', str(array.__dlpack__(max_version=(1, 2))))
        for options in ({"copy": True}, {"dl_device": (_dlpack.CUDA, 0)}):
            with self.assertRaises(BufferError):
                array.__dlpack__(**options)
        on_device = made_array(data, _dlpack.CUDA)
        self.assertEqual(on_device[1:].__cuda_array_interface__["data"], (data.ctypes.data + 48, False))

    def test_deleters_run_once(self):
        data = np.arange(6, dtype=np.int32)
        for versioned in (False, True):
            unused = Held(data, versioned)
            unused.capsule = None
            self.assertEqual(unused.calls, 1)
        used = Held(data, False)
        array = np.from_dlpack(used)
        self.assertEqual((used.calls, array.tolist()), (0, data.tolist()))
        del array
        self.assertEqual(used.calls, 1)

    def test_interpreter_exit(self):
        code = ("import numpy as np, test_device as t\n"
                "data = np.arange(6, dtype=np.int32)\n"
                "array = t.made_array(data)\n"
                "kept = [array.__dlpack__(), array.__dlpack__(max_version=(1, 0)), np.from_dlpack(array)]\n"
                "kept.append(kept)\n"
                "import builtins; builtins.more = array.__dlpack__()\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=os.environ)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@needs_scipy
class Blocks(unittest.TestCase):
    def test_csr_matrices_of_the_host(self):
        for side in (2, 4, 8, 16):
            dense = random_blocks(96, 64, side, side, 65535).astype(np.uint16)
            blocks = spmm.csr_to_bsr(sp.csr_array(dense))
            stored = {m: spmm.csr_to_bsr(sp.csr_array(dense), (m, m)) for m in (2, 4, 8, 16)}
            cost = {m: x.data.nbytes + x.indices.nbytes + x.indptr.nbytes for m, x in stored.items()}
            self.assertEqual(cost[blocks.blocksize[0]], min(cost.values()), cost)
            for x in (blocks, *stored.values(), spmm.csr_to_bsr(sp.csr_array(dense), 32)):
                self.assertEqual(x.dtype, np.uint16)
                np.testing.assert_array_equal(x.toarray(), dense)
        twice = sp.csr_array((np.ones(2), np.zeros(2, dtype=int), np.array([0, 2, 2])), shape=(2, 2))
        rows = [np.array(x) for x in ([0, 1, 3], [3, 0, 2], [7, 8, 9])]  # on the way of matrices on a device
        spare = [np.append(x, 2) for x in rows[1:]]
        for given in (rows, [rows[0], *spare]):
            indptr, indices, data = _Places.of_rows(*given, (2, 4), np).gathered(2)
            self.assertEqual((indptr.tolist(), indices.tolist(), data.tolist()),
                             ([0, 2], [0, 1], [[[0, 0], [8, 0]], [[0, 7], [9, 0]]]))
        for at, wrong in ((0, [0, 3, 2]), (0, [0, 9, 3]), (0, [1, 1, 3]), (0, [0, 1]), (0, [0, 1, 4]), (1, [3, -1, 2]), (1, [3, 0, 4]),
                          (0, [0, -1, 3])):
            with self.subTest(wrong), self.assertRaisesRegex(spmm.FormatError, "indptr and indices: descend, or lead outside"):
                _Places.of_rows(*rows[:at], np.array(wrong), *rows[at + 1:], (2, 4), np)
        for bad, block, text in ((twice, 2, "stored twice"), (sp.csr_array((3, 4)), "auto", "no block side"),
                                 (sp.csr_array((3, 4)), 2, "no multiple"), (sp.csr_array((4, 4)), (2, 4), r"\(2, 4\)"),
                                 (np.eye(4), 2, "is a ndarray")):
            with self.subTest(text), self.assertRaisesRegex(spmm.Error, text):
                spmm.csr_to_bsr(bad, block)


@unittest.skipUnless(HAS_TORCH, "needs PyTorch with a GPU")
class Torch(unittest.TestCase):
    def test_tensors_of_every_kind(self):
        for side in (1, 2, 4, 8):
            for kind in (torch.int16, torch.int32, torch.int64, torch.float32, torch.float64):
                largest = 65535 if kind not in (torch.int16,) else 32767
                a, b = random_blocks(48, 64, side, 1, largest), random_blocks(64, 32, side, 2, largest)
                with self.subTest(side=side, kind=kind):
                    on_a, on_b = (self.tensor(x, side, kind) for x in (a, b))
                    c = spmm.multiply(on_a, on_b, dtype="uint32")
                    self.assertEqual(c.layout, torch.sparse_csr if side == 1 else torch.sparse_bsr)
                    np.testing.assert_array_equal(c.to_dense().cpu().numpy(), exact_product(a, b))
                    self.assertEqual(c.saturated_elements, int((exact_product(a, b) == 2**32 - 1).sum()))

    @staticmethod
    def tensor(dense, side, kind):
        tensor = torch.tensor(dense, dtype=torch.int64).to(kind).cuda()
        return tensor.to_sparse_csr() if side == 1 else tensor.to_sparse_bsr((side, side))

    def test_streams_errors_and_memory(self):
        a = random_blocks(64, 64, 4, 3, 2047)
        expected = exact_product(a, a)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            c = spmm.multiply(self.tensor(a, 4, torch.int32), self.tensor(a, 4, torch.int32), dtype="uint32")
            np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
        for kind, value in ((torch.bfloat16, 65536), (torch.float16, float("inf"))):  # of which the type makes no 65535
            wide = torch.eye(8, dtype=torch.float32).cuda().to_sparse_bsr((4, 4))
            values = wide.values().to(kind)
            values[0, 0, 0] = value
            wide = torch.sparse_bsr_tensor(wide.crow_indices(), wide.col_indices(), values, (8, 8))
            with self.assertRaisesRegex(spmm.FormatError, "whole number"):
                spmm.multiply(wide, wide, dtype="uint32")
        bad = self.tensor(a, 4, torch.float32)
        bad.values()[0, 0, 0] = 0.5
        with self.assertRaisesRegex(spmm.FormatError, "whole number"):
            spmm.multiply(bad, bad, dtype="uint32")
        with self.assertRaisesRegex(spmm.FormatError, "layout"):
            spmm.multiply(torch.ones(4, 4).cuda(), torch.ones(4, 4).cuda())
        good = self.tensor(a, 4, torch.int32)
        report = {}
        for _ in range(200):
            c = spmm.multiply(good, good, report=report, dtype="uint32")
        del c
        before = torch.cuda.memory_allocated()
        for _ in range(200):
            c = spmm.multiply(good, good, dtype="uint32")
        np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
        del c
        self.assertEqual(torch.cuda.memory_allocated(), before)
        self.assertEqual(report["plan"]["backend"], "cuda")

    @staticmethod
    def random_tensor(seed, side, kind):
        """16 x 16 blocks of any type, in host memory."""
        generator = torch.Generator().manual_seed(seed)
        stored = torch.rand(16, 16, generator=generator) < 0.3
        values = torch.randn(int(stored.sum()), side, side, generator=generator, dtype=torch.float64) * 30
        values = (values.abs() if kind is torch.uint8 else values).to(kind)
        indptr, indices = torch.cat([torch.zeros(1, dtype=torch.int64), stored.sum(1).cumsum(0)]), stored.nonzero()[:, 1]
        if side == 1:
            return torch.sparse_csr_tensor(indptr, indices, values.reshape(-1), (16, 16))
        return torch.sparse_bsr_tensor(indptr, indices, values, (16 * side, 16 * side))

    def test_all_types_have_the_bits_of_the_cpu(self):
        for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
                     torch.int64):
            for side in (1, 3, 4, 8, 16):
                with self.subTest(kind=kind, side=side):
                    a, b = (self.random_tensor(seed, side, kind) for seed in (1, 2))
                    host, device = spmm.multiply(a, b), spmm.multiply(a.cuda(), b.cuda())
                    self.assertEqual(device.dtype, host.dtype)
                    self.assertEqual(device.saturated_elements, 0)
                    for part in ("crow_indices", "col_indices", "values"):
                        self.assertTrue(torch.equal(getattr(device, part)().cpu(), getattr(host, part)()), part)
                    with spmm.plan(a.cuda(), b.cuda()) as plan:
                        again = plan(a.values().cuda(), b.values().cuda())
                        self.assertTrue(torch.equal(again.values().cpu(), host.values()))
                        out = torch.empty((plan.num_blocks, side, side), dtype=host.dtype, device="cuda")
                        plan.into(a.values().cuda(), b.values().cuda(), out)
                        self.assertTrue(torch.equal(out.reshape(-1).cpu(), host.values().reshape(-1)))
                        with self.assertRaises(TypeError):
                            plan(a.values().cuda().to(torch.complex64), b.values().cuda())
                    added = spmm.multiply(a, b, alpha=3, beta=-2, c=host)
                    on_device = spmm.multiply(a.cuda(), b.cuda(), alpha=3, beta=-2, c=host.cuda())
                    self.assertTrue(torch.equal(on_device.values().cpu(), added.values()))
                    masked = spmm.multiply(a, b, pattern=a)
                    self.assertTrue(torch.equal(spmm.multiply(a.cuda(), b.cuda(), pattern=a.cuda()).values().cpu(), masked.values()))
                    with spmm.plan(a.cuda(), b.cuda(), pattern=a.cuda()) as plan:
                        again = plan(a.values().cuda(), b.values().cuda(), alpha=2, beta=0, c=masked.values().cuda())
                        twice = spmm.multiply(a, b, pattern=a, alpha=2)
                        self.assertTrue(torch.equal(again.values().cpu(), twice.values()))
                    found = spmm.multiply(*((x.crow_indices().cuda(), x.col_indices().cuda(), x.values().cuda()) for x in (a, b)))
                    self.assertTrue(torch.equal(torch.from_dlpack(found.data).reshape(-1).cpu(), host.values().reshape(-1)))
        with self.assertRaisesRegex(TypeError, "float64 and float32"):
            spmm.multiply(self.random_tensor(1, 4, torch.float64).cuda(), self.random_tensor(1, 4, torch.float32).cuda())
        with self.assertRaisesRegex(spmm.UsageError, "on_saturation"):
            spmm.multiply(a.cuda(), b.cuda(), on_saturation="error")
        many = spmm.multiply(self.random_tensor(1, 8, torch.float64), self.random_tensor(2, 8, torch.float64), backend="cuda")
        few = spmm.multiply(self.random_tensor(1, 8, torch.float64), self.random_tensor(2, 8, torch.float64), backend="cpu")
        self.assertTrue(torch.equal(many.values(), few.values()))

    def test_plans(self):
        for side, kind in ((1, torch.int16), (4, torch.int32), (8, torch.float32)):
            dense = [random_blocks(64, 64, side, seed, 255) for seed in (1, 2)]
            a, b = (self.tensor(x, side, kind) for x in dense)
            with spmm.plan(a, b, dtype="uint32") as plan:
                expected = exact_product(*dense)
                np.testing.assert_array_equal(plan(a.values(), b.values()).to_dense().cpu().numpy(), expected)
                self.assertEqual(plan(a.values(), b.values()).layout, a.layout)
                larger = [x.values().to(torch.int32) * 200 for x in (a, b)]
                exact = exact_product(*(x * 200 for x in dense))
                np.testing.assert_array_equal(plan(*larger).to_dense().cpu().numpy(), exact)
                out = torch.empty((plan.num_blocks, side, side), dtype=torch.int32, device="cuda")
                given = [x.to(torch.int16) for x in larger]
                plan.into(*given, out)  # before the capture, so that kernels are loaded
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    plan.into(*given, out)
                out.zero_()
                graph.replay()
                torch.cuda.synchronize()
                wide = (out.to(torch.int64) & 0xFFFFFFFF).reshape(plan.num_blocks, side, side)
                make = torch.sparse_csr_tensor if side == 1 else torch.sparse_bsr_tensor
                found = make(plan.indptr, plan.indices, wide.reshape(-1) if side == 1 else wide, plan.shape)
                np.testing.assert_array_equal(found.to_dense().cpu().numpy(), exact)
                self.assertEqual(plan.count_saturated(out), int((exact == 2**32 - 1).sum()))
                with self.assertRaisesRegex(spmm.FormatError, "elements of 16 bits"):
                    plan.into(given[0][:-1], given[1], out)
            with self.assertRaisesRegex(spmm.UsageError, "is closed"):
                plan.into(*given, out)

    def test_many_products(self):
        for kind, side in ((torch.int16, 4), (torch.int32, 1), (torch.int64, 8), (torch.float32, 2)):
            largest = 32767 if kind is torch.int16 else 65535
            generator = np.random.default_rng(side)
            dense = []
            for seed in range(40):
                rows, inner, cols = (side * int(x) for x in generator.integers(1, 9, 3))
                dense.append((random_blocks(rows, inner, side, seed, largest), random_blocks(inner, cols, side, -seed % 99, largest)))
            pairs = [tuple(self.tensor(x, side, kind) for x in pair) for pair in dense]
            products = spmm.multiply_many(pairs, dtype="uint32")
            self.assertEqual(len(products), 40)
            expected = [exact_product(a, b) for a, b in dense]
            for found, exact in zip(products, expected):
                np.testing.assert_array_equal(found.to_dense().cpu().numpy(), exact)
            self.assertEqual(products.saturated_elements, sum(int((x == 2**32 - 1).sum()) for x in expected))
            self.assertEqual(products[-1].shape, products[39:][0].shape)
        with self.assertRaises(IndexError):
            products[40]
        wrong = next(x for x, pair in enumerate(pairs) if pair[1].values().numel())
        pairs[wrong][1].values()[0] = 0.5
        with self.assertRaisesRegex(spmm.FormatError, f"matrix B, product {wrong}: an element is no whole number"):
            spmm.multiply_many(pairs, dtype="uint32")

    def test_batched_tensors(self):
        for kind, side in ((torch.int16, 1), (torch.int32, 2), (torch.float32, 4)):
            base = torch.rand(24 // side, 32 // side, device="cuda") < 0.4
            mask = torch.stack([base.roll(x, 1) for x in range(20)])  # as many blocks in each
            dense = torch.randint(1, 300, (20, 24, 32), device="cuda")
            dense *= mask.repeat_interleave(side, 1).repeat_interleave(side, 2)
            right = dense.transpose(1, 2).contiguous()
            a, b = (x.to(kind) for x in (dense, right))
            a, b = ((x.to_sparse_csr() if side == 1 else x.to_sparse_bsr((side, side))) for x in (a, b))
            products = spmm.multiply_many(a, b, dtype="uint32")
            for x, product in enumerate(products):
                self.assertEqual(product.layout, a.layout)
                self.assertTrue(torch.equal(product.to_dense(), (dense[x].double() @ right[x].double()).long()))
        wrong = torch.ones(5, 8, 8, device="cuda")
        wrong[3, 2, 1] = 0.5
        with self.assertRaisesRegex(spmm.FormatError, "matrix B, product 3: an element is no whole number"):
            spmm.multiply_many(torch.ones(5, 8, 8, device="cuda").to_sparse_bsr((4, 4)), wrong.to_sparse_bsr((4, 4)), dtype="uint32")
        with self.assertRaisesRegex(spmm.FormatError, "one batch dimension"):
            spmm.multiply_many(a[0], b[0], dtype="uint32")
        with self.assertRaisesRegex(spmm.FormatError, "no batches"):
            spmm.multiply(a, b)

    def test_many_products_of_all_types(self):
        for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
                     torch.int64):
            for side in (1, 3, 8):
                pairs = [(self.random_tensor(seed, side, kind).cuda(), self.random_tensor(seed + 50, side, kind).cuda()) for seed in range(9)]
                for (a, b), found in zip(pairs, spmm.multiply_many(pairs)):
                    wanted = spmm.multiply(a, b)
                    self.assertEqual(found.dtype, wanted.dtype)
                    self.assertTrue(torch.equal(found.col_indices(), wanted.col_indices()))
                    self.assertTrue(torch.equal(found.values(), wanted.values()))
                a, b = pairs[0]
                make = torch.sparse_csr_tensor if side == 1 else torch.sparse_bsr_tensor
                stacks = [make(*(torch.stack([part] * 4) for part in (x.crow_indices(), x.col_indices(), x.values())), (4, *x.shape))
                          for x in (a, b)]
                for found in spmm.multiply_many(*stacks):
                    self.assertTrue(torch.equal(found.values(), spmm.multiply(a, b).values()))
        report = {}
        products = spmm.multiply_many([(a, b)] * 3, report=report)
        self.assertEqual((report["element_type"], products.saturated_elements), ("i64", 0))
        with self.assertRaisesRegex(TypeError, "int64 and float32"):
            spmm.multiply_many([(a, b), (a.to(torch.float32), b.to(torch.float32))])

    def test_many_products_with_a_wrong_index(self):
        a = self.tensor(random_blocks(64, 64, 4, 3, 2047), 4, torch.int32)
        columns = a.col_indices().clone()
        columns[5] = 16
        bad = torch.sparse_bsr_tensor(a.crow_indices(), columns, a.values(), a.shape)
        with self.assertRaisesRegex(spmm.FormatError, r"matrix B, product 17, indices\[5\]: the block column is not in 0 to 15"):
            spmm.multiply_many([(a, a)] * 17 + [(a, bad)] + [(a, a)] * 3)
        parts = [x.repeat(21, *[1] * x.dim()) for x in (a.crow_indices(), a.col_indices(), a.values())]
        wrong = parts[1].clone()
        wrong[17, 5] = 16
        batches = [torch.sparse_bsr_tensor(parts[0], x, parts[2], (21, *a.shape)) for x in (parts[1], wrong)]
        with self.assertRaisesRegex(spmm.FormatError, r"matrix B, product 17, indices\[5\]: the block column is not in 0 to 15"):
            spmm.multiply_many(*batches)
        products = spmm.multiply_many([(a, a)] * 21)
        self.assertTrue(torch.equal(products[20].to_dense(), spmm.multiply(a, a, dtype="uint32").to_dense()))

    def test_workspace_of_the_caller(self):
        a = random_blocks(256, 256, 4, 3, 65535)
        tensor, expected = self.tensor(a, 4, torch.int32), exact_product(a, a)
        before = torch.cuda.memory_allocated()
        allocations = []
        for workspace in ("engine", "caller"):
            with spmm.Engine(devices=0, workspace=workspace) as engine:
                earlier = torch.cuda.memory_stats()["allocation.all.allocated"]
                for _ in range(50):
                    c = engine.multiply(tensor, tensor, dtype="uint32")
                allocations.append(torch.cuda.memory_stats()["allocation.all.allocated"] - earlier)
        self.assertGreaterEqual(allocations[1], allocations[0] + 50)  # one for all small buffers of a call
        with spmm.Engine(devices=0, workspace="caller") as engine:
            np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
            for c in engine.multiply_many([(tensor, tensor)] * 3, dtype="uint32"):
                np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
            bad = tensor.clone()
            bad.col_indices()[1] = 64
            with self.assertRaisesRegex(spmm.FormatError, "block column"):
                engine.multiply(bad, tensor)
            with engine.plan(tensor, tensor, dtype="uint32") as plan:
                c = plan(tensor.values(), tensor.values())
                np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
            engine.trim()
        del c, plan, bad
        gc.collect()
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_csr_to_bsr(self):
        for side in (2, 4, 8, 16):
            dense = random_blocks(96, 64, side, side, 65535)
            for kind in (torch.int32, torch.float32):
                csr = torch.tensor(dense).to(kind).cuda().to_sparse_csr()
                for block in ("auto", side, (side, side)):
                    bsr = spmm.csr_to_bsr(csr, block)
                    self.assertEqual((bsr.layout, bsr.dtype), (torch.sparse_bsr, kind))
                    np.testing.assert_array_equal(bsr.to_dense().cpu().numpy().astype(np.int64), dense)

    def test_tuples_and_dlpack(self):
        a = random_blocks(64, 64, 4, 3, 65535)
        tensor = self.tensor(a, 4, torch.int32)
        arrays = (tensor.crow_indices(), tensor.col_indices(), Bits(tensor.values().to(torch.int16).contiguous()))
        c = spmm.multiply(arrays, arrays)
        data = torch.from_dlpack(c.data[:]).view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        indptr, indices = torch.from_dlpack(c.indptr), torch.from_dlpack(c.indices)
        saturated = c.saturated_elements
        del c  # tensors keep the memory
        gc.collect()
        found = torch.sparse_bsr_tensor(indptr, indices, data, (64, 64)).to_dense().cpu().numpy()
        np.testing.assert_array_equal(found, exact_product(a, a))
        self.assertEqual(saturated, int((found == 2**32 - 1).sum()))
        many = spmm.multiply_many([(arrays, arrays)] * 5)
        for one in (many[0], many[4]):
            self.assertEqual(torch.from_dlpack(one.indptr).tolist(), indptr.tolist())
            self.assertTrue(torch.equal(torch.from_dlpack(one.indices), indices))


@unittest.skipUnless(HAS_CUPY, "needs CuPy with a GPU")
class CuPy(unittest.TestCase):
    def test_csr_matrices_and_arrays(self):
        a, b = random_blocks(48, 64, 1, 1, 65535), random_blocks(64, 32, 1, 2, 65535)
        on_a, on_b = (cupy_sparse.csr_matrix(cupy.asarray(x, dtype=cupy.float64)) for x in (a, b))
        c = spmm.multiply(on_a, on_b, dtype="uint32")
        np.testing.assert_array_equal(c.toarray().get(), exact_product(a, b).astype(np.float64))
        for kind in (cupy.float32, cupy.float64):  # elements as they are
            c32 = spmm.multiply(*(x.astype(kind) for x in (on_a, on_b)))
            host = spmm.multiply(*(x.astype(kind).get() for x in (on_a, on_b)))
            self.assertEqual(c32.dtype, kind)
            self.assertEqual(c32.data.get().tobytes(), host.data.tobytes())
        arrays = [(x.indptr, x.indices, x.data.astype(cupy.uint16), x.shape) for x in (on_a, on_b)]
        found = spmm.multiply(*arrays)
        self.assertEqual(found.shape, (48, 32))
        self.assertEqual(found.saturated_elements, c.saturated_elements)
        np.testing.assert_array_equal(cupy.asarray(found.data).ravel().get(), c.data.get().astype(np.uint32))
        np.testing.assert_array_equal(cupy.asarray(found.indptr).get(), c.indptr.get())
        for product in spmm.multiply_many([(on_a, on_b)] * 3, dtype="uint32"):
            np.testing.assert_array_equal(product.toarray().get(), exact_product(a, b).astype(np.float64))
        blocks = [spmm.csr_to_bsr(x, (4, 4)) for x in (on_a, on_b)]
        found = spmm.multiply(*blocks)
        expected = exact_product(a, b)
        self.assertEqual(found.saturated_elements, int((expected == 2**32 - 1).sum()))
        of_blocks = spmm.Bsr(*(cupy.from_dlpack(x).get() for x in found[:3]), found.shape)
        np.testing.assert_array_equal(as_dense(of_blocks), expected)


if __name__ == "__main__":
    unittest.main()
