"""--rows and spmm-cat: ranges of block rows, and one file of them; --pattern: some blocks; --triangle to --keep: some elements; spmm-verify of results right, wrong and broken."""
import os

from programs import (BAD_DATA, CANNOT_CREATE, LIMIT, MEMORY, NEGATIVE, NO_INPUT, OK, OLD, USAGE, Matrix, Place, Workplace, bytes_of, cpu, header,
                      product_of, random_matrix, read_report, run, write)


class Rows(Workplace):
    def multiply(self, *words):
        self.expect(OK, cpu(*words))

    def test_files_of_row_ranges_joined_have_the_bytes_of_the_whole_product(self):
        for way in ([], ["--transpose-a", "--transpose-b"], ["--kernel", "reference", "--memory-limit", "60k", "--threads", "1"],
                    ["--verify", "full"], ["--verify", "20", "--threads", "3"]):
            self.multiply(*way, "a.bin", "b.bin", "whole.bin")
            for number, rows in enumerate((":5", "5:5", "5:6", "6:15", "15:")):
                self.multiply(*way, "--rows", rows, "a.bin", "b.bin", f"c{number}")
            self.assertEqual(bytes_of("c1"), header(64, 4, 0))
            self.expect(OK, run("spmm-cat", "c0", "c1", "c2", "c3", "c4", "c.bin"), "5 files, ")
            self.assertEqual(bytes_of("c.bin"), bytes_of("whole.bin"), way)

    def test_report_plan_and_summary_say_which_rows(self):
        self.expect(OK, run("spmm", "--report", "r.json", "--rows", "3:9", "a.bin", "b.bin", "c.bin"), "-> C block rows 3:9, ")
        self.assertEqual(read_report()["plan"]["rows"], {"first": 3, "end": 9})
        self.assertEqual(read_report()["a"]["blocks"], 60)
        self.expect(OK, run("spmm", "--plan", "--rows", "3:9", "a.bin", "b.bin"), "C: block rows 3:9 alone\n")

    def test_a_file_is_proven_to_have_these_rows_and_no_others(self):
        self.multiply("--rows", "3:9", "--verify", "full", "--report", "r.json", "a.bin", "b.bin", "c.bin")
        self.assertEqual(read_report()["proof"]["rows"], 24)
        for rows, code, said in (("3:9", OK, "24 element rows"), (":", NEGATIVE, ""), ("3:10", NEGATIVE, ""), ("4:99", USAGE, ""),
                                 ("4:9", BAD_DATA, "lies outside the block rows 4:9")):
            self.expect(code, run("spmm-verify", "--rows", rows, "a.bin", "b.bin", "c.bin"), said)
        wrong = Matrix.read("c.bin", "I")
        wrong.blocks[-1][2][-1] ^= 1
        wrong.write("c.bin")
        self.expect(NEGATIVE, run("spmm-verify", "--rows", "3:9", "a.bin", "b.bin", "c.bin"))

    def test_products_at_the_blocks_of_another_matrix(self):
        whole = product_of(self.a, self.b)
        blocks = whole.blocks[::3]
        Matrix(64, 4, [(i, j, 16 * [0]) for i, j, _ in reversed(blocks)]).write("p.bin")
        Matrix(64, 4, blocks, "I").write("wanted.bin")
        self.multiply("--pattern", "p.bin", "a.bin", "b.bin", "c.bin")
        self.assertEqual(bytes_of("c.bin"), bytes_of("wanted.bin"))
        self.multiply("--pattern", "p.bin", "--rows", ":7", "a.bin", "b.bin", "c0")
        self.multiply("--pattern", "p.bin", "--rows", "7:", "--report", "r.json", "a.bin", "b.bin", "c1")
        self.assertEqual(read_report()["c"]["blocks"], sum(i >= 7 for i, *_ in blocks))
        self.expect(OK, run("spmm-cat", "c0", "c1", "c.bin"))
        self.assertEqual(bytes_of("c.bin"), bytes_of("wanted.bin"))
        product_of(self.a.transposed(), self.b).write("wanted.bin")
        Matrix(64, 4, [(i, j, 16 * [1]) for i in range(16) for j in range(16)]).write("all.bin")
        write("jobs.tsv", "a.bin\tb.bin\tt.bin\ttranspose-a=1\tpattern=all.bin\n")
        self.expect(OK, run("spmm-batch", "jobs.tsv"))
        self.assertEqual(bytes_of("t.bin"), bytes_of("wanted.bin"))  # without blocks of zeros
        self.expect(OK, run("spmm-batch", "--resume", "jobs.tsv"), "1 done before")
        Matrix(64, 4, [(1, 1, 16 * [1])]).write("all.bin")
        self.expect(OK, run("spmm-batch", "--resume", "jobs.tsv"))
        self.assertNotEqual(bytes_of("t.bin"), bytes_of("wanted.bin"))
        write("jobs.tsv", "a.bin\tb.bin\tp.bin\tpattern=p.bin\n")
        self.expect(BAD_DATA, run("spmm-batch", "jobs.tsv"), "p.bin is an input of line 1")
        for words, code, said in ((["--verify", "full"], USAGE, "does not go with the blocks of C"),
                                  (["--kernel", "row-merge"], USAGE, "does not go with the blocks of C"),
                                  (["--plan"], USAGE, "is given together with --plan"), (["--report", "p.bin"], USAGE, "is the same file"),
                                  (["--memory-limit", "2k"], MEMORY, "does not run out of core")):
            self.expect(code, cpu("--pattern", "p.bin", *words, "a.bin", "b.bin", "x.bin"), said)
            self.assertFalse(os.path.exists("x.bin"))

    def test_elements_that_are_kept(self):
        square = product_of(self.a, self.a.transposed())
        upper = [(i, j, [x if j > i or c % 4 >= c // 4 else 0 for c, x in enumerate(x)]) for i, j, x in square.blocks if j >= i]
        Matrix(64, 4, upper, "I").write("wanted.bin")
        self.multiply("--gram", "--triangle", "upper", "--verify", "full", "--report", "r.json", "a.bin", "c.bin")
        self.assertEqual(bytes_of("c.bin"), bytes_of("wanted.bin"))
        self.assertEqual((read_report()["dropped_elements"], read_report()["b"]["transposed"]), (0, True))
        self.assertEqual(read_report()["pairs"], sum(y[0] >= x[0] for x in self.a.blocks for y in self.a.blocks if x[1] == y[1]))
        kept = ["--no-diagonal", "--at-least", "9000000", "--keep", "3"]
        said = self.expect(OK, run("spmm", "--backend", "cpu", "--transpose-b", *kept, "--report", "r.json", "a.bin", "a.bin", "wanted.bin")).out
        self.assertIn(f", {read_report()['dropped_elements']:,} elements dropped", said)
        left = sum(x != 0 for _, _, block in Matrix.read("wanted.bin", "I").blocks for x in block)
        self.assertEqual(read_report()["dropped_elements"] + left, sum(x != 0 for _, _, block in square.blocks for x in block))
        self.expect(OK, run("spmm-verify", "--transpose-b", *kept, "a.bin", "a.bin", "wanted.bin"), "block rows computed again")
        for other in ([], kept[1:], [*kept[:-1], "4"], ["--triangle", "upper", *kept]):
            self.expect(NEGATIVE, run("spmm-verify", "--transpose-b", *other, "a.bin", "a.bin", "wanted.bin"), "differ")
        for rows, name in ((":7", "c0"), ("7:", "c1")):  # rows have the numbers that they have in the whole
            self.multiply("--gram", *kept, "--rows", rows, "a.bin", name)
        self.expect(OK, run("spmm-verify", "--transpose-b", *kept, "--rows", ":7", "a.bin", "a.bin", "c0"),
                    f", {len({i for i, _, _ in self.a.blocks if i < 7})} block rows computed again")
        self.expect(OK, run("spmm-cat", "c0", "c1", "c.bin"))
        self.assertEqual(bytes_of("c.bin"), bytes_of("wanted.bin"))
        write("jobs.tsv", "a.bin\ta.bin\tt.bin\ttranspose-b=1\tno-diagonal=1\tat-least=9000000\tkeep=3\n")
        self.expect(OK, run("spmm-batch", "jobs.tsv"))
        self.assertEqual(bytes_of("t.bin"), bytes_of("wanted.bin"))
        self.expect(OK, run("spmm-batch", "--resume", "jobs.tsv"), "1 done before")
        self.expect(OK, run("spmm-batch", "--resume", "--triangle", "upper", "jobs.tsv"), "1 done, 0 failed")
        write("jobs.tsv", "a.bin\ta.bin\tall.bin\ttranspose-b=1\ttriangle=none\tno-diagonal=0\tat-least=0\tkeep=0\n")
        self.expect(OK, run("spmm-batch", "--triangle", "upper", *kept, "jobs.tsv"))
        square.write("wanted.bin")
        self.assertEqual(bytes_of("all.bin"), bytes_of("wanted.bin"))
        self.expect(OK, run("spmm", "--plan", "--gram", "a.bin"), "transposed while it is read")

    def test_cat_refuses_what_does_not_follow_and_leaves_the_output_as_it_was(self):
        for rows, name in (("0:6", "c0"), ("5:16", "c1"), ("6:16", "c2"), (":", "whole")):
            self.multiply("--rows", rows, "a.bin", "b.bin", name)
        c2 = Matrix.read("c2", "I")
        last, (i, j, elements) = c2.blocks[-1], c2.blocks[1]
        for name, first_two in (("mixed", [last, (i, j, elements)]), ("twice", 2 * [(i, j, elements)]), ("outside", [c2.blocks[0], (6, 16, elements)])):
            Matrix(64, 4, first_two + c2.blocks[2:-1], "I").write(name)
        Matrix(128, 4, c2.blocks, "I").write("larger")
        write("short", bytes_of("c2")[:100])
        for files, code, said in [
                (["c0", "c1"], BAD_DATA, "c1, record 0 (byte offset 12): block (5, "),
                (["c2", "c0"], BAD_DATA, "c0, record 0 (byte offset 12)"),
                (["c0", "c0"], BAD_DATA, "give the files in the order of their block rows"),
                (["c0", "mixed"], BAD_DATA, "expected blocks in the order of (i, j)"),
                (["c0", "twice"], BAD_DATA, "twice, record 1 "),
                (["c0", "outside"], BAD_DATA, "block index (6, 16)"),
                (["c0", "larger"], BAD_DATA, "n = 64, m = 4 against n = 128, m = 4"),
                (["c0", "a.bin"], BAD_DATA, "fits elements of 16 bits"),
                (["c0", "short"], BAD_DATA, "the file ends at byte offset 100"),
                (["c0", "nowhere"], NO_INPUT, "nowhere"),
                (["c0", "./old.bin"], USAGE, "the output is the same file as the input"),
                ([], USAGE, "the output (OUT) is missing"),
                (["--no-clobber", "c0", "c2"], CANNOT_CREATE, "")]:
            with self.subTest(files=files):
                self.expect(code, run("spmm-cat", *files, "old.bin"), said)
                self.assertEqual(bytes_of("old.bin"), OLD)
        self.expect(USAGE, run("spmm-cat"))
        self.expect(USAGE, run("spmm-cat", "c0", "c2", "-"))
        self.assertEqual(self.expect(OK, run("spmm-cat", "-q", "c0", "c2", "old.bin")).out, "")
        self.assertEqual(bytes_of("old.bin"), bytes_of("whole"))
        self.assertFalse([name for name in self.names() if name.startswith(".")])


class Verify(Place):
    def operands(self, largest):
        """x.bin and y.bin; returns their product."""
        x, y = (random_matrix(240, 4, 400, largest, seed) for seed in (1, 2))
        x.write("x.bin")
        y.write("y.bin")
        return product_of(x, y)

    def verify(self, c, *options, files=("x.bin", "y.bin")):
        if isinstance(c, Matrix):
            c.write("c.bin")
            c = "c.bin"
        return run("spmm-verify", *files, c, *options)

    def test_products_with_and_without_saturated_elements(self):
        for largest in (1000, 40000, 65535):
            c = self.operands(largest)
            saturated = sum(elements.count(LIMIT) for _, _, elements in c.blocks)
            right = self.expect(OK, self.verify(c), "proven: ")
            self.assertEqual(" block rows computed again" in right.out, largest > 1000)
            self.assertEqual(f", {saturated:,} element" in right.out, saturated > 0)
            self.assertEqual(saturated > 0, largest > 1000)
            self.expect(OK, self.verify(c, "-q", "--threads", "3"))
            self.expect(OK, self.verify(c, "-q", "--any-order", "--memory-limit", "1M"))
            self.expect(NEGATIVE, self.verify(c, files=("y.bin", "x.bin")))
        self.expect(OK, self.verify(c, "--verify-seed", "12345"), "key 12345")

    def test_differences_are_shown_with_both_values(self):
        c = self.operands(2000)
        i, j, elements = c.blocks[100]
        for options in ([], ["--any-order"], ["-q"]):
            wrong = c.changed(lambda blocks: blocks[100][2].__setitem__(5, elements[5] + 1))
            self.expect(NEGATIVE, self.verify(wrong, *options), f"block ({i}, {j})", f"element (1, 1) expected {elements[5]}")
        self.expect(NEGATIVE, self.verify(c.changed(lambda blocks: blocks.pop(7))), "is absent")
        self.expect(NEGATIVE, self.verify(c.changed(lambda blocks: blocks.append((*self.absent(c), 16 * [3]))), "--any-order"))

    @staticmethod
    def absent(c):
        places = {block[:2] for block in c.blocks}
        return next((59, j) for j in range(59, -1, -1) if (59, j) not in places)

    def test_order_duplicates_zero_blocks_and_indices_are_the_format(self):
        c = self.operands(2000)

        def swap(blocks):
            blocks[3], blocks[90] = blocks[90], blocks[3]

        def halve(blocks):  # both halves of one block: the sums are right
            i, j, elements = blocks[20]
            blocks[20] = (i, j, [x // 2 for x in elements])
            blocks.append((i, j, [x - x // 2 for x in elements]))

        for change, options, code, said in [
                (swap, [], BAD_DATA, "--any-order"), (swap, ["--any-order"], OK, "proven"),
                (lambda blocks: blocks.__setitem__(50, (*blocks[49][:2], blocks[50][2])), ["--any-order"], BAD_DATA, "record 49"),
                (halve, ["--any-order"], BAD_DATA, "record 20"),
                (lambda blocks: blocks.append((*self.absent(c), 16 * [0])), ["--any-order"], BAD_DATA, "--allow-zero-blocks"),
                (lambda blocks: blocks.append((*self.absent(c), 16 * [0])), ["--any-order", "--allow-zero-blocks"], OK, "proven"),
                (lambda blocks: blocks.__setitem__(5, (0, 60, blocks[5][2])), ["--any-order"], BAD_DATA, "record 5")]:
            self.expect(code, self.verify(c.changed(change), *options), said)

    def test_files_that_are_none_and_operands_that_break_the_format(self):
        c = self.operands(2000)
        c.write("c.bin")
        x = Matrix.read("x.bin")
        x.changed(lambda blocks: blocks.__setitem__(9, (*blocks[4][:2], blocks[9][2]))).write("twice.bin")
        x.changed(lambda blocks: blocks.__setitem__(9, (60, 0, blocks[9][2]))).write("outside.bin")
        random_matrix(64, 4, 60, 9, 1).write("other.bin")
        for words, code, said in [
                (["x.bin", "y.bin"], USAGE, ""), (["x.bin", "y.bin", "c.bin", "d.bin"], USAGE, ""), (["--help"], OK, ""),
                (["x.bin", "y.bin", "none.bin"], NO_INPUT, ""), (["x.bin", "none.bin", "c.bin"], NO_INPUT, ""),
                (["x.bin", "other.bin", "c.bin"], BAD_DATA, ""), (["other.bin", "other.bin", "c.bin"], BAD_DATA, ""),
                (["twice.bin", "y.bin", "c.bin"], BAD_DATA, "record 9"), (["x.bin", "outside.bin", "c.bin"], BAD_DATA, "")]:
            self.expect(code, run("spmm-verify", *words), said)
        whole = bytes_of("c.bin")
        for broken in (whole[:7], whole[:-1], whole + b"x"):
            write("t.bin", broken)
            self.expect(BAD_DATA, self.verify("t.bin"), "t.bin")
