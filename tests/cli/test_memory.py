"""What the CPU backend really holds in memory, measured in processes of its own: at most the limit and 32 MB."""
from programs import MEMORY, OK, Place, cpu, run

SLACK = 32 << 20  # the program, its stacks, its libraries and its heap
PROOF_SLACK = 18_000_000


class Memory(Place):
    def prepare(self, a, b=None):
        for seed, name, words in ((1, "a.bin", a), (2, "b.bin", b or a)):
            self.expect(OK, run("spmm-gen", "-q", "--seed", seed, name, *words.split()))
        self.expect(OK, cpu("a.bin", "b.bin", "whole.bin"))

    def check(self, limit_mb, *options, slack=SLACK):
        with self.subTest(limit_mb=limit_mb, options=options):
            result = self.expect(OK, cpu("a.bin", "b.bin", "limited.bin", "--memory-limit", f"{limit_mb}M", *options))
            self.assertLessEqual(result.peak_bytes, limit_mb * 1e6 + slack)
            self.expect(OK, run("spmm-compare", "-q", "whole.bin", "limited.bin"))

    def test_a_long_row_whose_result_is_merged_from_slabs(self):
        self.prepare("--n 2097152 --m 8 --k 240000 --pattern heavy-row", "--n 2097152 --m 8 --k 480000")
        self.check(100)

    def test_elements_kept_of_each_row_some_and_all(self):
        self.prepare("--n 131072 --m 64 --k 2048 --pattern heavy-row")
        self.check(30, "--keep", 131072)
        self.expect(OK, cpu("a.bin", "b.bin", "whole.bin", "--keep", 1000))
        self.check(30, "--keep", 1000)
        self.expect(MEMORY, cpu("a.bin", "b.bin", "limited.bin", "--memory-limit", "30M", "--keep", 100000), "memory limit")

    def test_large_results_many_threads_verification(self):
        self.prepare("--n 65536 --m 16 --k 14000 --pattern power-law", "--n 65536 --m 16 --k 20000 --max-value 65535")
        self.check(16, "--threads", 8)
        self.check(40, "--verify", 1000000)
        self.check(100, "--threads", 8)

    def test_proofs_of_results_with_saturated_elements(self):
        patterns, num_recomputed = ["uniform", "banded", "heavy-row", "heavy-column", "block-diagonal"], 0
        for number, (n, m, k) in enumerate([(200_000, 1, 400_000), (100_000, 2, 300_000), (32_768, 4, 60_000), (65_536, 8, 20_000),
                                            (65_520, 21, 3_000)], 1):
            for pattern in (patterns[number % 5], patterns[(number + 2) % 5]):
                self.prepare(f"--n {n} --m {m} --k {k} --max-value 60000 --pattern {pattern}")
                self.check(22, "--verify", "full", slack=PROOF_SLACK)
                proven = self.expect(OK, run("spmm-verify", "--memory-limit", "8M", "a.bin", "b.bin", "whole.bin"))
                self.assertLessEqual(proven.peak_bytes, 8e6 + PROOF_SLACK)
                num_recomputed += "block rows computed again" in proven.out
        self.assertGreaterEqual(num_recomputed, 8)

    def test_many_small_blocks_every_kernel(self):
        self.prepare("--n 1000000 --m 1 --k 300000")
        self.check(20, "--kernel", "row-merge", "--threads", 1)
        self.check(60, "--kernel", "row-merge", "--threads", 4)
        self.check(16, "--kernel", "reference")

    def test_a_small_limit_and_a_hypersparse_matrix(self):
        self.prepare("--n 4194304 --m 4 --k 100000 --pattern heavy-column", "--n 4194304 --m 4 --k 100000 --pattern banded")
        self.check(20)
        self.check(40, "--threads", 3)
