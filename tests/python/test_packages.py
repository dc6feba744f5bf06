"""A package that is missing, broken, too old or too new is a line and exit code 1."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGES = pathlib.Path(__file__).with_name("packages.py")


class Packages(unittest.TestCase):
    def run_with(self, source, *names):
        """packages.py where scipy is a package of this source."""
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "scipy")
            package.mkdir()
            (package / "__init__.py").write_text(source)
            (package / "sparse.py").write_text("")
            return subprocess.run([sys.executable, PACKAGES, *names], capture_output=True, text=True, timeout=300,
                                  env={**os.environ, "PYTHONPATH": folder})

    def test_versions(self):
        for version, code, words in [("1.8.0", 0, "scipy 1.8.0"), ("1.17.1", 0, "scipy 1.17.1"), ("1.7.3", 1, "is too old"),
                                     ("2.0.0rc1", 1, "is newer than what these tests know"), ("0.19", 1, "is too old")]:
            done = self.run_with(f"__version__ = '{version}'", "scipy")
            self.assertEqual((done.returncode, words in done.stdout), (code, True), done.stdout)
            self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_one_that_was_built_for_another_numpy(self):
        done = self.run_with("raise AttributeError('_ARRAY_API not found')", "numpy", "scipy")
        self.assertEqual((done.returncode, "_ARRAY_API not found" in done.stdout), (1, True), done.stdout)


if __name__ == "__main__":
    unittest.main()
