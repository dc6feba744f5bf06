"""spmm-convert: there and back without loss, what the options do, what is refused; the other programs name it."""
import os
import random

from programs import BAD_DATA, OK, USAGE, Matrix, Place, bytes_of, header, random_matrix, record_bytes, run, write

SMALL = "%%MatrixMarket matrix coordinate integer general\n% x\n2 3 3\n1 1 4\n2 3 9\n1 2 1\n"


def mtx(rest, words="coordinate integer general"):
    return f"%%MatrixMarket matrix {words}\n{rest}"


def head(field, shape, count):
    """What spmm-convert writes in front of the elements."""
    return f"%%MatrixMarket matrix coordinate {field} general\n% written by spmm-convert\n{shape} {count:<20}\n"


class Conversions(Place):
    def convert(self, *words, said=""):
        return self.expect(OK, run("spmm-convert", *words), said)

    def test_every_side_there_and_back_is_the_same_file(self):
        for m in (1, 3, 4, 8, 17, 64):
            matrix = random_matrix(m * 9, m, 30, 65535, m).sorted()
            matrix.blocks = [(i, j, [65535, *elements[1:]]) for i, j, elements in matrix.blocks]  # no block of zeros
            matrix.write("a.bin")
            self.convert("a.bin", "a.mtx")
            for options in (["--block", m], ["--like", "a.bin"]):
                self.convert("a.mtx", "back.bin", *options)
                self.assertEqual(bytes_of("back.bin"), bytes_of("a.bin"))

    def test_blocks_are_those_of_the_definition_and_auto_takes_the_shortest_file(self):
        source = random.Random(7)
        for side in (7, 100, 3000):
            places = {(source.randrange(side), source.randrange(side)) for _ in range(3000)}
            write("a.mtx", mtx(f"{side} {side} {len(places)}\n" + "".join(f"{i + 1} {j + 1} 1\n" for i, j in places)))
            sizes = {}
            for m in (*range(1, 17), 32, 64):
                self.convert("a.mtx", "a.bin", "--block", m)
                num_blocks = len({(i // m, j // m) for i, j in places})
                self.assertEqual(bytes_of("a.bin")[4:12], header(0, m, num_blocks)[4:])
                sizes[m] = num_blocks * record_bytes(m)
            self.convert("a.mtx", "a.bin", "--block", "auto")
            self.assertEqual(os.path.getsize("a.bin"), 12 + min(sizes.values()))
        write("full.mtx", mtx("64 64 4096\n" + "".join(f"{x // 64 + 1} {x % 64 + 1}\n" for x in range(4096)), "coordinate pattern general"))
        for n, side in ((64, 64), (96, 32), (1001, 13)):  # only sides that divide n
            self.convert("full.mtx", "full.bin", "--n", n)
            self.assertEqual(bytes_of("full.bin")[:8], header(n, side, 0)[:8])

    def test_records_in_any_order_and_results_with_32_bits(self):
        matrix = random_matrix(60, 5, 40, 65535, 3)
        matrix.write("a.bin")
        c = Matrix(60, 5, matrix.blocks, "I")
        c.write("c.bin")
        self.convert("a.bin", "a.mtx")
        self.convert("c.bin", "c.mtx")
        self.assertEqual(bytes_of("a.mtx"), bytes_of("c.mtx"))
        c.changed(lambda blocks: blocks[0][2].__setitem__(7, 2**32 - 1)).write("c.bin")
        self.convert("c.bin", "c.mtx")
        self.assertIn(b" 4294967295\n", bytes_of("c.mtx"))
        self.convert("c.mtx", "d.bin", "--on-overflow", "saturate", "--block", 5)
        self.assertEqual(Matrix.read("d.bin"), matrix.changed(lambda blocks: blocks[0][2].__setitem__(7, 65535)).sorted())

    def test_size_side_and_scale(self):
        write("s.mtx", SMALL)

        def to_bin(*options):
            self.convert("s.mtx", "s.bin", *options)
            return Matrix.read("s.bin")

        self.assertEqual(to_bin("--block", 2, "--n", 8).n, 8)
        self.assertEqual(to_bin("--block", "auto").m, 3)
        self.assertEqual(to_bin("--n", 3, "--block", 1), Matrix(3, 1, [(0, 0, [4]), (0, 1, [1]), (1, 2, [9])]))
        for scale, options, values in (("7000", [], [28000, 7000, 63000]), ("0.3", ["--round"], [1, 3]), ("3/10", ["--round"], [1, 3]),
                                       ("-1", ["--on-overflow", "saturate"], [])):
            self.assertEqual([elements[0] for _, _, elements in to_bin("--block", 1, "--scale", scale, *options).blocks], values)
        write("huge.mtx", mtx("1 1 1\n1 1 1e400\n", "coordinate real general"))
        self.convert("huge.mtx", "huge.bin", "--on-overflow", "saturate")
        self.assertEqual(Matrix.read("huge.bin").blocks, [(0, 0, [65535])])
        self.convert("s.mtx", "s.bin", "--scale", "-1/4", "--round", "--on-overflow", "saturate", said="; 1 rounded, 2 raised to 0, in ")
        self.assertEqual(to_bin("--block", 2), Matrix(4, 2, [(0, 0, [4, 1, 0, 0]), (0, 1, [0, 0, 9, 0])]))
        for options, expected in [(["--shape", "2x3"], head("integer", "2 3", 3) + "1 1 4\n1 2 1\n2 3 9\n"),
                                  ([], head("integer", "4 4", 3) + "1 1 4\n1 2 1\n2 3 9\n"),
                                  (["--scale", "0.5"], head("real", "4 4", 3) + "1 1 2\n1 2 0.5\n2 3 4.5\n")]:
            self.convert("s.bin", "t.mtx", *options)
            self.assertEqual(bytes_of("t.mtx").decode(), expected)
        self.expect(BAD_DATA, run("spmm-convert", "s.bin", "u.mtx", "--shape", "2x2"),
                    "the element at row 1, column 2 (counted from 0) is 9, outside the shape 2x2; give a larger")
        self.assertNotIn("u.mtx", self.names())

    def test_kinds_of_matrix_market_files(self):
        for content, elements in [
                (mtx("\n% c\n2 2 3\n\n1 2 1.5e1\r\n2 1 +3\n% c\n  1\t2 0.1e1 \n", "coordinate real general"), [(0, 1, 16), (1, 0, 3)]),
                (mtx("3 3 2\n2 1 7\n3 3 1", "coordinate integer symmetric"), [(0, 1, 7), (1, 0, 7), (2, 2, 1)]),
                (mtx("3 3 2\n2 1 7\n3 3 1", "coordinate integer hermitian"), [(0, 1, 7), (1, 0, 7), (2, 2, 1)]),
                (mtx("2 2 2\n1 1 65535\n2 1 3\n", "coordinate unsigned-integer general"), [(0, 0, 65535), (1, 0, 3)]),
                (mtx("2 2 2\n2 1\n2 2\n", "coordinate pattern symmetric"), [(0, 1, 1), (1, 0, 1), (1, 1, 1)]),
                (mtx("2 2 3\n+1 +2 7\n2 1 1e-400\n2 2 -1e-400\n", "coordinate real general"), [(0, 1, 7)]),
                ("%%matrixmarket MATRIX Coordinate Integer General\n1 1 0\n", []), (mtx("1 1 2\n1 1 0\n1 1 -0\n"), [])]:
            write("k.mtx", content)
            self.convert("k.mtx", "k.bin", "--block", 1)
            self.assertEqual([(i, j, value) for i, j, (value,) in Matrix.read("k.bin").blocks], elements, content)

    def test_formats_are_known_by_content_and_ending(self):
        write("matrix", SMALL)
        self.convert("matrix", "a")
        self.assertEqual(self.convert("a", "b.mtx", "-q").out, "")
        # Header and length decide before first bytes and endings do.
        random_matrix(35615, 5, 3, 9, 1).write("as-gzip")  # n begins as gzip does, 1F 8B
        random_matrix(0x04034B50, 1, 3, 9, 1).write("as-zip.mtx")  # and as a zip archive, PK 03 04
        Matrix(4, 2, [(0, 1, [1, 2, 3, 4])], "I").write("c1")
        for name in ("as-gzip", "as-zip.mtx", "c1"):
            self.convert(name, "c.mtx")
            self.convert(name, "c2.bin")
        self.assertEqual(Matrix.read("c2.bin").blocks, [(0, 1, [1, 2, 3, 4])])

    def test_memory_is_24_bytes_for_each_element_and_20_mb(self):
        count = 1_000_000  # all in one block row, far apart: each side takes the most
        with open("a.mtx", "w", encoding="ascii") as file:  # line by line: a program begins with the memory of its parent
            file.write(mtx(f"2 30000000 {count}\n"))
            file.writelines(f"{e % 2 + 1} {e * 29 + 1} 7\n" for e in range(count))
        for block in ("auto", 2):
            self.assertLess(self.convert("a.mtx", "a.bin", "--block", block).peak_bytes, 24 * count + 20e6)


class Refusals(Place):
    def refused(self, code, words, part):
        with self.subTest(words=words, part=part):
            names = self.names()
            result = self.expect(code, run("spmm-convert", *words), part)
            self.assertEqual((result.out, self.names()), ("", names))
            self.assertTrue(result.err.startswith("spmm-convert: error: "))

    def test_command_lines_and_files_that_cannot_be_read_or_written(self):
        write("a.mtx", mtx("2 2 1\n1 1 4\n"))
        random_matrix(12, 4, 3, 9, 1).write("a.bin")
        write("unknown", "\x01 of some length")
        write("table.csv", "1,2,3\n4,5,6\n")
        write("cut.bin", "\x01oo short")
        for line in """
                2 | input file
                2 a.mtx | output file
                2 @ more | "more"
                2 a.mtx b.mtx | from .mtx to .mtx
                2 a.bin b.npy | python3 -m spmm convert
                2 a.mtx o.csv | o.csv
                2 a.bin a.bin | the same file
                2 a.mtx a.bin --like a.bin | the same file
                2 @ --block 0 | --block: "0" is not a whole number from 1 to 64
                2 @ --n 1 | --n: n = 1 is less than the 2 x 2
                2 @ --n 10 --block 4 | give 12
                2 @ --n 10 --like a.bin | --n: and --like
                2 @ --like a.bin --block 5 | --block: 5 does not divide n = 12
                2 @ --on-overflow wrap | "wrap" is not known; give error or saturate
                2 @ --shape 2x2 | --shape
                2 @ --type u16 | --type
                2 a.bin o.mtx --block 4 | --block
                2 a.bin o.mtx --round | --round
                2 a.bin o.mtx --shape 12 | --shape: "12"
                2 a.bin o.mtx --shape 12x13 | give at most 12x12
                66 none.npz out.bin | none.npz
                66 . o.mtx | expected a regular file
                66 @ --like none.bin | none.bin
                65 unknown out.bin | unknown
                65 table.csv out.bin | is a text file
                65 cut.bin o.mtx | cut.bin, byte offset 9
                65 @ --like cut.bin | cut.bin
                65 @ --scale 0.3 | a.mtx: the element at row 1, column 1
                73 a.mtx no/folder/o.bin | no/folder
                73 a.mtx . | is a directory
                74 a.mtx /dev/full | No space left on device""".strip().splitlines():
            words, part = line.replace("@", "a.mtx out.bin").split(" | ")
            code, *words = words.split()
            self.refused(int(code), words, part)
        for bad in ("0", "many", "1/0", "1/", "/2", "1/2/3", "1/inf", "inf", "nan", "0/5"):
            self.refused(USAGE, ["a.mtx", "out.bin", "--scale", bad], f'--scale: "{bad}" is not a factor')

    def test_malformed_files_and_elements_that_do_not_fit_16_bits(self):
        real = "coordinate real general"
        write("out.bin", "what was there before")
        for content, part in [
                ("", "line 1: does not begin with %%MatrixMarket"), ("1 1 1\n", "line 1"),
                ("%%MatrixMarket matrix coordinate\n", "line 1: the banner has 3 words"),
                ("%%MatrixMarket vector coordinate integer general\n", 'line 1: the object is "vector", expected matrix'),
                (mtx("", "array integer general"), "line 1: the layout"),
                (mtx("1 1 1\n1 1 1 0\n", "coordinate complex general"), 'line 1: the field is "complex"'),
                (mtx("2 2 1\n2 1 1\n", "coordinate real skew-symmetric"), "line 1: the symmetry"),
                (mtx("2 3 1\n1 1 1\n", "coordinate real hermitian"), "line 2: a symmetric matrix of 2 x 3"),
                (mtx("% nothing else\n"), "line 2: the line of the sizes is missing"), (mtx("2 2\n1 1 1\n"), "line 2: 2 sizes, expected 3"),
                (mtx("\n%\n2 x 1\n1 1 1\n"), 'line 4: the size "x"'), (mtx("0 2 0\n"), "line 2: the matrix has no rows"),
                (mtx("4294967296 2 1\n1 1 1\n"), "line 2: 4294967296 x 2 is too large"),
                (mtx("9 9 1000000000\n1 1 1\n"), "line 2: 1000000000 elements are announced, more than the 6 bytes"),
                (mtx("2 2 1\n0 1 1\n"), "line 3: row 0 is out of range, expected 1 to 2"),
                (mtx("2 2 2\n1 1 1\n3 1 1\n"), "line 4: row 3 is out of range"), (mtx("2 2 1\n1 9 1\n"), "line 3: column 9 is out of range"),
                (mtx("2 2 1\n99999999999999999999 1 1\n"), 'line 3: "99999999999999999999"'),
                (mtx("2 2 1\n1 1.5 1\n"), 'line 3: "1.5" is not the number of a column'), (mtx("2 2 1\n1 1\n"), 'line 3: "" is not a number'),
                (mtx("2 2 1\n1 1 x\n"), 'line 3: "x" is not a number'), (mtx("2 2 1\n1 1 1 1\n"), 'line 3: "1" follows'),
                (mtx("2 2 2\n1 1 1\n"), ": 1 elements, 2 were announced"), (mtx("2 2 1\n1 1 1\n\n2 2 1\n"), "line 5: more than the 1 elements"),
                (mtx("2 2 1\n1 1 1e400\n", real), "is inf, which is above 65535"),
                (mtx("2 2 1\n1 1 1\0x\n", real), "line 3: a zero byte, expected text; check"),
                (mtx("2 2 1\n+-1 1 1\n"), 'line 3: "+-1" is not the number of a row'), (mtx("2 2 1\n1 1 1D3\n", real), 'line 3: "1D3"'),
                (mtx("2 2 1\n1 1 1\n", "coordinate pattern general"), 'line 3: "1" follows'),
                (mtx("2 2 1\n1 1 " + 9_000_000 * "1" + "\n"), "line 3: more than "), (b"\x1f\x8b\x08 packed", "gzip -dc < "),
                (mtx("3 3 2\n1 1 1\n2 3 -4\n"), ": the element at row 2, column 3 (counted from 1) is -4"),
                (mtx("3 3 1\n1 1 65536\n"), ": the element at row 1, column 1 (counted from 1) is 65536"),
                (mtx("3 3 1\n1 1 0.5\n", real), "is 0.5, which is not a whole number"), (mtx("3 3 1\n1 1 nan\n", real), "is nan, which is not a number"),
                (mtx("3 3 1\n1 1 -inf\n", real), "is -inf, which is negative"),
                (mtx("3 3 3\n1 2 65535\n3 3 1\n1 2 1\n"), ": the sum of 2 elements at row 1, column 2"),
                (mtx("3 3 2\n1 2 9007199254740993\n1 2 -9007199254740992\n"), "2^53"),
                (mtx("3 3 1\n3 1 -1\n", "coordinate integer symmetric"), ": the element at row 1, column 3")]:
            write("in.mtx", content)
            self.refused(BAD_DATA, ["in.mtx", "out.bin"], part)
            self.assertEqual(bytes_of("out.bin"), b"what was there before")

    def test_blocks_outside_of_the_matrix_and_twice(self):
        for out in ("out.bin", "out.mtx"):
            for places, part in [([(2, 0), (0, 1), (2, 3)], None), ([(0, 1), (2, 4)], "c.bin, record 1 (byte offset 24)"),
                                 ([(0, 1), (0, 1)], "c.bin, record 1 (byte offset 24)"),
                                 ([(2, 1), (0, 1), (2, 1)], "c.bin, record 2 (byte offset 36)")]:
                Matrix(4, 1, [(i, j, [7]) for i, j in places], "I").write("c.bin")
                if part is None:
                    self.expect(OK, run("spmm-convert", "c.bin", out))
                    os.remove(out)
                else:
                    self.refused(BAD_DATA, ["c.bin", out], part)

    def test_the_other_programs_name_the_command_that_converts(self):
        random_matrix(12, 4, 3, 9, 1).write("b.bin")
        for name, content, command in [
                ("a.mtx", mtx("2 2 1\n1 1 4\n"), "spmm-convert a.mtx a.bin\n"),
                ("it's.npy", b"\x93NUMPY and more than twelve bytes", "python3 -m spmm convert 'it'\\''s.npy' 'it'\\''s.bin'\n"),
                ("d.bin.gz", b"\x1f\x8b\x08 and more than twelve bytes", "gzip -dc < d.bin.gz > d.bin"),
                ("c.bin", b"PK\x03\x04 and more than twelve bytes", "python3 -m spmm convert c.bin c.bin.bin\n")]:
            write(name, content)
            for code, *words in [(BAD_DATA, "spmm", name, "b.bin", "o.bin"), (BAD_DATA, "spmm", "b.bin", name, "o.bin"),
                                 (BAD_DATA, "spmm", "--plan", name, "b.bin"), (BAD_DATA, "spmm-info", name), (USAGE, "spmm-compare", name, "b.bin")]:
                self.expect(code, run(*words), command)
        self.assertNotIn("o.bin", self.names())
