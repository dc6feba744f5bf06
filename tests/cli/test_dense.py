"""spmm-dense: tables, checks, JSON, refusals. By the kernel of the host, so no GPU is needed."""
import json
import unittest

from programs import BIN, MEMORY, NEGATIVE, OK, USAGE, Place, run


@unittest.skipUnless((BIN / "spmm-dense").exists(), "spmm-dense is not built")
class Dense(Place):
    def host(self, *words):
        return run("spmm-dense", *words, "--kernel", "host-naive")

    def test_a_table_for_one_shape_of_every_type(self):
        for kind in ("f32", "i32", "u16"):
            result = self.expect(OK, self.host("--shape", "30x40x50", "--type", kind), "occupancy", "30x40x50           host-naive",
                                 "30x40x50: 30 of 30 rows checked against the host")
            self.assertEqual("no difference" in result.out, kind != "f32")

    def test_shapes_where_a_grid_from_the_wrong_sides_goes_wrong(self):
        shapes = ["128x50x128", "50x128x50", "1x4096x1", "400x1x400", "100x10x300", "64"]
        found = json.loads(self.expect(OK, self.host("--shape", ",".join(shapes), "--type", "i32", "--json", "-", "--runs", 2, "--check", "full")).out)
        self.assertEqual((found["type"], found["runs"]), ("i32", 2))
        for shape, product in zip(shapes, found["products"], strict=True):
            sides = [product["rows"], product["inner"], product["cols"]]
            self.assertEqual(sides, [int(x) for x in shape.split("x")] if "x" in shape else [64, 64, 64])
            kernel, = product["results"]
            self.assertEqual((product["rows_checked"], kernel["status"], kernel["device"], len(kernel["run_ms"])), (sides[0], "ok", "host", 2))
            self.assertEqual((kernel["check"]["passed"], kernel["check"]["differences"], kernel["check"]["elements"]), (True, 0, sides[0] * sides[2]))
            self.assertTrue(kernel["min_ms"] <= kernel["median_ms"] and kernel["gflops"] > 0 and kernel["resources"]["occupancy"] == 0)

    def test_a_difference_beyond_the_threshold(self):
        self.expect(NEGATIVE, self.host("--shape", 40, "--threshold", 0), "WRONG: ", " of 1600 differ, largest ")  # float is not double
        self.expect(OK, self.host("--shape", 40, "--threshold", 0.5))
        self.expect(OK, self.host("--shape", 40, "--threshold", 0, "--check", "none"), "not checked")

    def test_refusals(self):
        for words, part in [
                ([], "--shape: is missing; give JxKxL"), (["--shape", "0x4x1"], '--shape: "0" is not a whole number'),
                (["--shape", "3x4"], '--shape: "3x4" is no shape; write JxKxL'), (["--shape", "3,,4"], "has an empty part"),
                (["--shape", "3xax4"], "is not a whole number"), (["--shape", "3", "--type", "f64"], '--type: "f64" is not known'),
                (["--shape", "3", "--tile", "wide"], '--tile: "wide" is not known'), (["--shape", "3", "--runs", "0"], '--runs: "0"'),
                (["--shape", "3", "--threshold", "-1"], '--threshold: "-1" is no such number'), (["--shape", "3", "--check", "some"], '--check: "some"'),
                (["a", "--shape", "3"], 'unexpected argument "a"'), (["--frobnicate"], "frobnicate")]:
            self.assertEqual(self.expect(USAGE, self.host(*words), part).out, "")
        self.expect(USAGE, run("spmm-dense", "--shape", 3, "--kernel", "fastest"), 'this build has no kernel "fastest"')
        self.expect(MEMORY, self.host("--shape", "4e6x4e6x4e6"), "shape 4000000x4000000x4000000: needs 192")  # before it is made
