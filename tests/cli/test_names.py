"""Names with control characters, given to every program: none of them reaches standard output or standard error."""
import os
import re

from programs import BIN, OK, Workplace, bytes_of, cpu, random_matrix, run, write

BAD = "e\x1b[31m\x07\x7f\xc2\x9b\udc9bz"  # ESC, BEL, DEL, U+009B as UTF-8, and byte 9B alone
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\udc80-\udcff]")


class Names(Workplace):
    def check(self, program, words, code=None):
        with self.subTest(program=program, words=list(map(ascii, words))):
            result = run(program, *words)
            self.assertIsNone(CONTROL.search(result.out + result.err), ascii(result))
            self.assertGreaterEqual(result.code, 0)
            if code is not None:
                self.assertEqual(result.code, code, ascii(result))

    def test_no_control_character_reaches_the_terminal(self):
        for name, matrix in (("a.bin", self.a), ("b.bin", self.b), ("n8.bin", random_matrix(8, 4, 2, 9, 3))):
            matrix.write(BAD + name)
        write(BAD + "cut.bin", bytes_of("a.bin")[:100])
        write(BAD + "bad.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 x 3\n")
        self.expect(OK, cpu("a.bin", "b.bin", BAD + "c.bin"))
        self.expect(OK, cpu("b.bin", "a.bin", BAD + "other.bin"))
        for name, lines in {"missing.jobs": "@none.bin\tb.bin\t@x.bin\n", "same.jobs": "a.bin\tb.bin\t@x.bin\nb.bin\ta.bin\t@x.bin\n",
                            "fails.jobs": "@cut.bin\tb.bin\t@x.bin\n", "words.jobs": "a.bin\tb.bin\tx.bin\t@=1\n",
                            BAD + ".jobs": "a.bin\tb.bin\n"}.items():
            write(name, os.fsencode(lines.replace("@", BAD)))
        write("suites.json", r'{"suites": {"s\u001b\u009b": [{"name": "c\u0007\u007f", "n": 8, "m": 4, "k": 2}]}}')
        programs = set(os.listdir(BIN))
        used = set()
        for line in """
                spmm 0 -v --report - @a.bin @b.bin @out.bin
                spmm 0 --plan --report - @a.bin @b.bin
                spmm 66 @none.bin b.bin x.bin
                spmm 65 @cut.bin b.bin x.bin
                spmm 65 @a.bin @n8.bin x.bin
                spmm 73 a.bin b.bin @folder/x.bin
                spmm 2 a.bin b.bin @.csv
                spmm 2 --@ a.bin b.bin x.bin
                spmm 2 help @
                spmm-gen 0 @g.bin --n 64 --m 4 --k 3
                spmm-gen 73 @folder/g.bin --n 64 --m 4 --k 3
                spmm-info 0 @a.bin
                spmm-info 0 --json @a.bin
                spmm-info 65 @cut.bin
                spmm-compare 1 @c.bin @other.bin
                spmm-compare 1 @a.bin @c.bin
                spmm-compare 2 @none.bin @c.bin
                spmm-convert 0 --on-overflow saturate @c.bin @c16.bin
                spmm-convert 0 @a.bin @a.mtx
                spmm-convert 0 @a.mtx @again.bin
                spmm-convert 65 @bad.mtx @x.bin
                spmm-verify 1 @a.bin @b.bin @other.bin
                spmm-verify 65 @a.bin @n8.bin @c.bin
                spmm-cat 65 @c.bin @other.bin @x.bin
                spmm-batch 66 missing.jobs
                spmm-batch 65 same.jobs
                spmm-batch 65 words.jobs
                spmm-batch 65 @.jobs
                spmm-batch 1 --backend cpu --report - fails.jobs
                spmm-bench 0 --suites suites.json --list
                spmm-bench 66 --suites @none.json --list
                spmm-dense 73 --json @folder/x.json --shape 4x4x4
                spmm-mpi 65 @cut.bin b.bin x.bin
                spmm-mpi 66 @none.bin b.bin x.bin""".strip().splitlines():
            program, code, *words = line.split()
            if program in programs:
                used.add(program)
                self.check(program, [word.replace("@", BAD) for word in words], int(code))
        self.assertEqual(used, programs)
        for program in programs:  # whatever else one says of words that it does not expect
            for words in ([BAD], [BAD, BAD, BAD], ["--threads", BAD, "a.bin"]):
                self.check(program, words)
