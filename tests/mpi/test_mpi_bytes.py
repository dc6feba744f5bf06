"""Any number of ranks writes the bytes of spmm; ranks of other command lines or files are refused."""
import os

from programs import BIN, LIMIT, NO_INPUT, OK, SATURATED, USAGE, Matrix, bytes_of, cpu, product_of, random_matrix, read_report, run, write
from ranks import FILES, MPIRUN, PRODUCT, Ranks, check_mpirun, own_messages, run_ranks


def setUpModule():
    check_mpirun()


class Bytes(Ranks):
    def report(self, num_ranks, *words):
        self.check_product(run_ranks(num_ranks, *words, "-q", "--backend", "cpu", "--report", "report.json", *FILES))
        return read_report("report.json")

    def test_random_products_have_the_bytes_of_one_process_also_proven_and_within_little_memory(self):
        for num_ranks in (2, 7, 3):
            lines = []
            for number, pattern in enumerate(["uniform", "banded", "power-law", "heavy-row", "heavy-column", "hub", "stencil-7", "arrow", "uniform"]):
                m = (1, 3, 4, 8, 16)[(number + num_ranks) % 5]
                n, count = (m * (100 + 37 * num_ranks), 250) if number else (m, 1)
                for seed, name in ((num_ranks, f"a{number}"), (9, f"b{number}")):
                    self.expect(OK, run("spmm-gen", "-q", "-n", n, "-m", m, "-k", count, "--pattern", pattern if number else "uniform",
                                        "--max-value", 65535, "--seed", seed, name))
                self.expect(OK, cpu(f"a{number}", f"b{number}", f"c{number}"))
                operands = f"a=a{number} b=b{number} expected=c{number} "
                lines += [operands, operands + "verify=full", operands + "limit=4000000"]
            self.run_products(num_ranks, lines)

    def test_ranks_share_the_pairs_evenly_and_say_what_each_did(self):
        for name, seed in (("x.bin", 21), ("y.bin", 22)):
            self.expect(OK, run("spmm-gen", "-q", "-n", 4096, "-m", 4, "-k", 20_000, "--seed", seed, name))
        self.expect(OK, cpu("x.bin", "y.bin", "expected.bin"))
        report = self.report(4)
        row = 0
        for rank in report["ranks"]:
            self.assertLess(rank["pairs"], report["pairs"] * 0.3)
            self.assertEqual((rank["rows"]["first"], rank["runs"]), (row, 1))
            row = rank["rows"]["end"]
        self.assertEqual((len(report["ranks"]), row, sum(rank["pairs"] for rank in report["ranks"])), (4, 1024, report["pairs"]))

    def test_a_tenth_of_the_operands_as_memory_limit(self):
        for name, seed in (("x.bin", 21), ("y.bin", 22)):
            self.expect(OK, run("spmm-gen", "-q", "-n", 16384, "-m", 8, "-k", 40_000, "--seed", seed, name))
        self.expect(OK, cpu("x.bin", "y.bin", "expected.bin"))
        report = self.report(3, "--memory-limit", "1M", "--threads", 1)  # of 2 * 5.4 MB
        self.assertGreater(report["plan"]["scratch_bytes"], 0)
        self.assertEqual([rank["runs"] for rank in report["ranks"]], [2, 2, 2])  # the indices do not fit

    def test_rows_are_proven_on_every_rank_and_the_output_may_be_a_device(self):
        self.generate(1024, 2000)
        self.assertGreater(self.report(2, "--verify", 20, "--durable")["verified_blocks"], 40)
        self.expect(OK, run_ranks(3, "-q", "--backend", "cpu", "--report", "report.json", "x.bin", "y.bin", "/dev/null"))
        self.assertEqual(read_report("report.json")["c"]["blocks"], len(Matrix.read("expected.bin", "I").blocks))

    def test_elements_at_the_limit_are_counted_once_or_an_error_that_names_the_first(self):
        b = random_matrix(256, 4, 2000, 65535, 1)
        for first_row in (0, 50):  # of 64: where the first rank has none, too
            a = Matrix(256, 4, [(i, j, elements if i >= first_row else 16 * [1]) for i, j, elements in b.blocks])
            self.prepare(a, b)
            expected = sum(elements.count(LIMIT) for _, _, elements in product_of(a, b).blocks)
            self.assertEqual(self.report(3)["saturated_elements"], expected)
            os.remove("z.bin")
            words = ["--on-saturation", "error", "--backend", "cpu", *FILES]
            refused = self.expect(SATURATED, run_ranks(3, *words), f"z.bin: {expected} elements are at the limit")
            first = run_ranks(1, *words).err.partition(", the first at row ")[2].partition(";")[0]
            self.assertIn(f", the first at row {first};", refused.err)
            self.assertEqual(self.names("x.bin", "y.bin", "expected.bin", "report.json"), [])

    def test_ranks_share_the_block_rows_of_a_range_and_transpose_what_they_read(self):
        random_matrix(480, 8, 900, 65535, 1).write("x.bin")
        random_matrix(480, 8, 700, 65535, 2).write("y.bin")
        for transposes in ([], ["--transpose-a", "--transpose-b"]):
            self.expect(OK, cpu("--rows", "10:45", *transposes, "x.bin", "y.bin", "expected.bin"))
            for num_ranks in (1, 3):
                report = self.report(num_ranks, "--rows", "10:45", "--verify", 5, *transposes)
                self.assertEqual((report["plan"]["rows"], report["a"]["transposed"]), ({"first": 10, "end": 45}, bool(transposes)))
        self.expect(USAGE, run_ranks(2, "--rows", "10:61", *FILES), "10:61 leaves the product, which has 60 block rows")


class Apart(Ranks):
    """Two ranks with a command line each."""

    def setUp(self):
        super().setUp()
        places = [(0, 0), (0, 1), (1, 0), (1, 1)]
        self.prepare(Matrix(2, 1, [(i, j, [x + 1]) for x, (i, j) in enumerate(places)]), Matrix(2, 1, [(0, 0, [1]), (1, 1, [1])]), old=False)

    def run_apart(self, first, second):
        return run("/usr/bin/env", *MPIRUN, 1, BIN / "spmm-mpi", *first, ":", "-n", 1, BIN / "spmm-mpi", *second)

    def refused(self, first, second, code, words):
        result = self.run_apart(first, second)
        self.assertEqual(result.code, code, result)
        message, = own_messages(result)
        for part in (words, " on rank 0 (", "[rank 1 of 2 on "):
            self.assertIn(part, message)
        self.assertEqual(self.names("x.bin", "y.bin", "expected.bin", "others"), [])

    def test_options_that_decide_the_result_are_the_same_on_all_ranks(self):
        for first, second, words in [
                ([], ["--transpose-a"], "--transpose-a: given on this rank, left out on rank 0 ("),
                (["--transpose-b"], [], "--transpose-b: left out on this rank, given on rank 0 ("),
                ([], ["--rows", "0:1"], "--rows: 0:1 on this rank, all rows on rank 0 ("),
                ([], ["--on-saturation", "error"], "--on-saturation: error on this rank"),
                ([], ["--no-clobber"], "--no-clobber: given on this rank")]:
            self.refused([*first, *PRODUCT], [*second, *PRODUCT], USAGE, words)
        self.refused(PRODUCT, [*PRODUCT[:-1], "other.bin"], USAGE, "OUT: other.bin on this rank, z.bin on rank 0 (")
        self.refused(PRODUCT, ["--version"], USAGE, "--help or --version on this rank, a product on rank 0 (")
        self.refused(["--help"], PRODUCT, USAGE, "a product on this rank, --help or --version on rank 0 (")

    def test_options_of_each_rank_may_differ(self):
        for rows in ([], ["--rows", "0:2"]):
            self.check_product(self.run_apart([*rows, *PRODUCT, "--threads", 1], [*rows, "-q", "--verify", 3, "--memory-limit", "50M", *FILES]))

    def test_inputs_that_ranks_see_differently_are_an_error_whatever_their_names(self):
        os.mkdir("others")
        write("others/x.bin", bytes_of("x.bin"))
        write("others/changed.bin", bytes_of("x.bin")[:-2] + b"\7\7")  # the element of the last block
        product = lambda a: ["-q", "--backend", "cpu", a, "y.bin", "z.bin"]
        self.refused(product("x.bin"), product("others/changed.bin"), NO_INPUT, "others/changed.bin: n 2, m 1, 4 blocks with digest ")
        self.refused(product("x.bin"), product("y.bin"), NO_INPUT, "y.bin: n 2, m 1, 2 blocks with digest ")
        self.check_product(self.run_apart(product("x.bin"), product("others/x.bin")))
