"""spmm-gen, spmm-info and spmm-compare: files and their promises, figures that can be checked by hand, differences, trouble."""
import json
import os

from programs import BAD_DATA, LIMIT, NEGATIVE, NO_INPUT, OK, SOURCE, USAGE, Matrix, Place, bytes_of, product_of, run, write

GOLDEN = SOURCE / "data/golden"
PATTERNS = ["uniform", "diagonal", "banded", "block-diagonal", "power-law", "heavy-row", "heavy-column", "arrow", "stencil-7", "stencil-27",
            "saddle-point", "hub", "rmat"]


class Gen(Place):
    def generate(self, name, *options):
        result = self.expect(OK, run("spmm-gen", name, "-q", *options))
        self.assertEqual(result.out, "")
        return Matrix.read(name)

    def test_each_pattern_has_the_same_blocks_in_every_order_and_for_every_number_of_threads(self):
        listed = run("spmm-gen", "--help", "all").out
        for pattern in PATTERNS:
            with self.subTest(pattern):
                self.assertIn(pattern, listed)
                count = {"diagonal": 150, "arrow": 500}.get(pattern, 700)
                words = ["--n", 600, "--m", 3, "--seed", 7, "--max-value", 900, "--pattern", pattern, "--k", count]
                matrix = self.generate("a", *words, "--threads", 1)
                places = [block[:2] for block in matrix.blocks]
                self.assertEqual((len(places), len(set(places))), (count, count))
                self.assertNotEqual(places, sorted(places))
                self.assertTrue(all(i < 200 and j < 200 and max(elements) <= 900 for i, j, elements in matrix.blocks))
                self.assertEqual(self.generate("b", *words, "--threads", 3), matrix)
                self.assertEqual(self.generate("c", *words, "--order", "sorted", "--threads", 2), matrix.sorted())

    def test_the_same_bytes_on_every_machine(self):
        values = [1699, 1964, 1690, 1673, 1519, 724, 1451, 788, 1143, 543, 1812, 1582]
        self.assertEqual(self.generate("a", "--n", 8, "--m", 2, "--k", 3),
                         Matrix(8, 2, [(i, j, values[4 * x:4 * x + 4]) for x, (i, j) in enumerate([(2, 3), (3, 1), (2, 2)])]))

    def test_a_full_matrix_an_empty_one_one_block_a_huge_one(self):
        for n, m, count, more in [(64, 8, 64, []), (64, 8, 64, ["--order", "sorted"]), (64, 8, 0, []), (64, 8, 0, ["--order", "sorted"]),
                                  (64, 64, 1, ["--pattern", "heavy-row"]), (2**32 - 1, 1, 9, []),
                                  (200, 2, 688, ["--pattern", "banded", "--bandwidth", 3])]:
            self.assertEqual(len(self.generate("a", "--n", n, "--m", m, "--k", count, *more).blocks), count)

    def test_memory_stays_far_below_the_file(self):
        for order in ("shuffled", "sorted"):
            result = self.expect(OK, run("spmm-gen", "a", "--n", 32768, "--m", 8, "--k", "1e6", "--order", order, "--threads", 2),
                                 "1000000 blocks (uniform, seed 1), 136 MB in ")
            self.assertLess(result.peak_bytes, 80e6)
            self.assertEqual(os.path.getsize("a"), 136_000_012)

    def test_what_cannot_be_made_is_refused_and_nothing_is_written(self):
        for line in """
                2 | output file is missing
                2 a | --n: is missing
                2 a --n 9 --m 2 --k 1 | give 8 or 10
                2 a --n 130 --m 65 --k 0 | from 1 to 64
                2 a --n 200 --m 2 --k 571 --pattern stencil-7 | give at most 570 blocks
                73 a --n 4294967232 --m 64 --k 4e9 | the file takes 32.8 TB
                73 no/such/folder --n 8 --m 2 --k 1 | no/such
                74 /dev/full --n 8 --m 2 --k 1 | /dev/full
                2 @ | --k: is missing
                2 @ --k 17 | give at most 16
                2 @ --k 4294967296 | --k:
                2 @ --k 5 --pattern diagonal | has 4 places
                2 @ --k 1 --pattern spiral | --pattern
                2 @ --k 1 --bandwidth 1 | --bandwidth:
                2 @ --k 1 --pattern banded --bandwidth 4 | give at most 3
                2 @ --k 1 --group 2 | --group:
                2 @ --k 1 --pattern block-diagonal --group 5 | give 1 to 4
                2 @ --k 1 --max-value 65536 | from 0 to 65535
                2 @ --k 1 --zero-blocks 1.01 | --zero-blocks: "1.01" is no such number; give a number from 0 to 1
                2 @ --k 1 --zero-blocks nan | --zero-blocks
                2 @ --k 1 --order random | give shuffled or sorted
                2 @ --k 1 --threads 4097 | --threads
                2 @ --k 1 --seed -1 | --seed
                2 @ a --k 1 | unexpected argument
                2 @ --n 8 --k 1 | --n: is given more than once""".strip().splitlines():
            words, part = line.replace("@", "a --n 8 --m 2").split(" | ")
            code, *words = words.split()
            with self.subTest(line):
                result = self.expect(int(code), run("spmm-gen", *words), part, "spmm-gen: error: ")
                self.assertEqual((result.out, self.names()), ("", []))


class Info(Place):
    def info(self, path):
        return json.loads(self.expect(OK, run("spmm-info", "--json", path)).out)

    def test_golden_files(self):
        a, b, c = (Matrix.read(GOLDEN / name, kind) for name, kind in (("a.bin", "H"), ("b.bin", "H"), ("c.bin", "I")))
        self.assertEqual(product_of(a, b), c)
        self.assertEqual(c, Matrix(6, 2, [(0, 0, [5, 10, 0, 0]), (0, 1, [LIMIT, 65535, 65555, 40]), (2, 1, [70, 100, 150, 220])], "I"))
        for name, expected in [
                ("a.bin", {"type": "u16", "n": 6, "m": 2, "blocks": 5, "blocks_per_side": 3, "file_bytes": 92, "nonzero_elements": 11,
                           "largest_element": 65535, "zero_blocks": 0, "sorted": False, "saturated_elements": 0, "block_density": 5 / 9,
                           "element_density": 11 / 36,
                           "block_rows": {"empty": 0, "min": 1, "median": 1, "mean": 5 / 3, "max": 3,
                                          "histogram": [{"from": 1, "to": 1, "count": 2}, {"from": 2, "to": 3, "count": 1}]}}),
                ("c.bin", {"type": "u32", "sorted": True, "saturated_elements": 1})]:
            found = self.info(GOLDEN / name)
            self.assertEqual({key: found[key] for key in expected}, expected)
        self.assertEqual((found["block_rows"]["empty"], self.info(GOLDEN / "a.bin")["block_columns"]["max"]), (1, 2))
        self.expect(OK, run("spmm-info", GOLDEN / "c.bin"), "\n1 element at the limit 4294967295\n")
        self.expect(OK, run("spmm-info", GOLDEN / "a.bin"), "n 6, m 2, blocks 5 (k) on a grid of 3 x 3, elements of 16 bits\n",
                    "records: not in the order of (i, j)\n", "blocks per block row: min 1, median 1, mean 1.66667, max 3; empty block rows: 0\n")

    def test_zero_blocks_empty_matrices_order_across_reads_and_huge_grids(self):
        Matrix(4, 1, [(0, 0, [0]), (0, 1, [7]), (3, 3, [0])]).write("zero")
        zero = self.info("zero")
        self.assertEqual((zero["zero_blocks"], zero["sorted"], zero["block_rows"]["median"]), (2, True, 0.5))
        Matrix(4, 1, []).write("empty")
        self.assertEqual(self.info("empty")["block_rows"]["empty"], 4)
        for order in ("sorted", "shuffled"):
            run("spmm-gen", "g", "--n", 4096, "--m", 4, "--k", "300e3", "--order", order)
            large = self.info("g")
            self.assertEqual((large["sorted"], large["largest_element"], large["block_rows"]["mean"]), (order == "sorted", 2047, 300e3 / 1024))
        run("spmm-gen", "g", "--n", 2**32 - 1, "--m", 1, "--k", 1000)
        self.assertLess(self.expect(OK, run("spmm-info", "g")).peak_bytes, 40e6)  # for billions of block rows

    def test_trouble(self):
        a = Matrix.read(GOLDEN / "a.bin")
        a.changed(lambda blocks: blocks.__setitem__(4, (blocks[4][0], 3, blocks[4][2]))).write("outside")
        for words, code, said in [([], USAGE, ""), ([GOLDEN / "a.bin", GOLDEN / "a.bin"], USAGE, ""), (["nothing"], NO_INPUT, ""),
                                  ([GOLDEN / "a.bin", "--type", "u32"], BAD_DATA, ""),
                                  (["outside"], BAD_DATA, "record 4 (byte offset 76): block index (0, 3)")]:
            self.expect(code, run("spmm-info", *words), said)


class Compare(Place):
    BASE = Matrix(6, 2, [(0, 0, [1, 2, 3, 4]), (1, 2, [5, 6, 7, 8]), (2, 1, [9, 10, 11, LIMIT - 1])], "I")

    def setUp(self):
        super().setUp()
        self.BASE.write("left")

    def compare(self, code, right, *options, parts=(), out=None):
        """Exit code, parts of the output, or all of it."""
        if right is not None:
            right.write("right")
        result = self.expect(code, run("spmm-compare", "left", "right", *options), *parts)
        if out is not None:
            self.assertEqual(result.out, out)

    def with_block(self, x, *block):
        return self.BASE.changed(lambda blocks: blocks.insert(x, block))

    def without_block(self, x, of=None):
        return (of or self.BASE).changed(lambda blocks: blocks.pop(x))

    def shuffled(self):
        return self.BASE.changed(lambda blocks: blocks.insert(0, blocks.pop()))

    def test_the_same_and_elements_that_differ(self):
        self.compare(OK, self.BASE, out="same: 3 blocks\n")
        self.compare(OK, self.BASE, "-q", out="")
        self.compare(OK, self.BASE, "--any-order", "--type", "u32")
        right = self.BASE.changed(lambda blocks: (blocks[0][2].__setitem__(1, 0), blocks[2][2].__setitem__(3, 0)))
        for options in ([], ["--any-order"]):
            self.compare(NEGATIVE, right, *options, out="row 0, col 1: left 2, right 0\nrow 5, col 3: left 4294967294, right 0\n"
                         "elements that differ: 2; blocks that differ: 2, only in left: 0, only in right: 0\n")
        self.compare(NEGATIVE, right, "-q", out="")
        right = Matrix(6, 2, [(i, j, 4 * [77]) for i, j, _ in self.BASE.blocks], "I")
        for most, lines in ((1, 2), (0, 1), (10, 11)):
            right.write("right")
            result = self.expect(NEGATIVE, run("spmm-compare", "left", "right", "--max-differences", most), "elements that differ: 12; ")
            self.assertEqual(result.out.count("\n"), lines)

    def test_blocks_that_one_file_does_not_have(self):
        for missing in range(3):
            self.compare(NEGATIVE, self.without_block(missing),
                         parts=["elements that differ: 4; blocks that differ: 0, only in left: 1, only in right: 0\n"])
        self.compare(NEGATIVE, self.with_block(1, 0, 2, [0, 0, 0, 9]), out="row 1, col 5: left no block, right 9\n"
                     "elements that differ: 1; blocks that differ: 0, only in left: 0, only in right: 1\n")
        zeros = self.with_block(3, 2, 2, 4 * [0]).changed(lambda blocks: blocks.insert(1, (0, 2, 4 * [0])))
        self.compare(NEGATIVE, zeros, out="elements that differ: 0; blocks that differ: 0, only in left: 0, only in right: 2 (all zero: 2)\n")
        self.compare(OK, zeros, "--ignore-zero-blocks")
        self.compare(NEGATIVE, self.with_block(3, 2, 2, [0, 0, 0, 1]), "--ignore-zero-blocks")

    def test_order_of_the_blocks(self):
        right = self.shuffled()
        self.compare(USAGE, right, parts=["right, record 1 (byte offset 36)", "--any-order"])
        self.compare(OK, right, "--any-order")
        self.compare(NEGATIVE, right.changed(lambda blocks: blocks[0][2].__setitem__(0, 1)), "--any-order", parts=["row 4, col 2: left 9, right 1\n"])
        right.write("left")  # out of order, but the same in both files up to where they differ
        self.compare(OK, right)
        self.compare(NEGATIVE, self.without_block(2, right))

    def test_other_headers_and_types(self):
        self.compare(NEGATIVE, Matrix(8, 2, [], "I"), out="n differs: 6 and 8\n")
        self.compare(NEGATIVE, Matrix(6, 3, [], "I"))
        narrow = Matrix(6, 2, [(0, 0, [1, 2, 3, 4])])
        narrow.write("left")
        self.compare(OK, narrow)
        self.compare(USAGE, narrow, "--type", "u32")
        self.compare(OK, Matrix(6, 2, narrow.blocks, "I"))
        self.compare(NEGATIVE, Matrix(6, 2, [(0, 0, [1, 2, 3, 65540])], "I"))
        self.compare(NEGATIVE, self.BASE, parts=["left is an operand"])
        self.compare(NEGATIVE, self.BASE, "--max-differences", 1, parts=["row 2, col 4: left no block, right 5\n"])

    def test_elements_at_the_limit_are_counted(self):
        left = Matrix(6, 2, [(0, 0, [LIMIT, 2, 3, LIMIT]), (1, 2, [5, 6, 7, 8]), (2, 1, [LIMIT, 10, 11, 12])], "I")
        left.write("left")
        self.compare(OK, left, out="same: 3 blocks, 3 elements at the limit 4294967295\n")
        self.compare(NEGATIVE, self.without_block(0, left), "--max-differences", 0,
                     parts=["; 3 elements at the limit 4294967295 in left; 1 element at the limit 4294967295 in right\n"])

    def test_all_trouble_is_exit_code_2(self):
        self.with_block(3, 2, 2, 4 * [1]).write("right")
        for words, part in [([], "left file"), (["left"], "right file"), (["left", "left", "left"], "unexpected argument"),
                            (["left", "nothing"], "nothing"), (["left", "left", "--type", "u64"], "--type"),
                            (["left", "nothing", "--max-differences", "some"], "--max-differences"), (["left", SOURCE / "data/README.md"], "README.md")]:
            self.expect(USAGE, run("spmm-compare", *words), part, "spmm-compare: error: ")
        whole = bytes_of("right")
        write("right", whole[:84] + b"\3" + whole[85:])  # malformed beyond the part that both files share
        self.compare(USAGE, None, parts=["record 3 (byte offset 84)"])
        write("right", whole[:60] + 2 * (whole[84:92] + whole[68:84]))
        for order in ("--any-order", "--ignore-zero-blocks"):
            self.compare(USAGE, None, order, parts=["block (2, 2) was stored before in record 2"])
        write("right", whole[:100])
        self.compare(USAGE, None, parts=["right"])
