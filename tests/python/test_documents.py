"""The examples of docstrings and of the READMEs run, and print what they say."""
import doctest
import inspect
import os
import pathlib
import pydoc
import re
import subprocess
import sys
import tempfile
import unittest

import spmm
import spmm._blocks
import spmm._engine
import spmm._matrix
import spmm._spy
from spmm import _library
from support import needs_scipy

ROOT = pathlib.Path(__file__).resolve().parents[2]


def code_blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@needs_scipy
class Documents(unittest.TestCase):
    def test_docstrings(self):
        for module in (spmm, spmm._blocks, spmm._engine, spmm._matrix, spmm._spy):
            with self.subTest(module.__name__):
                failed, tried = doctest.testmod(module, verbose=False)
                self.assertEqual(failed, 0)
                self.assertGreater(tried, 0)

    def test_the_help_begins_with_what_is_called(self):
        page = pydoc.plain(pydoc.render_doc(spmm))
        self.assertIn("\nFUNCTIONS\n", page)
        self.assertNotIn("BaseException", page)
        self.assertTrue(set(spmm.__all__) <= set(dir(spmm)))
        for name in ("Error", "FormatError", "UsageError", "SaturationError"):
            self.assertTrue(issubclass(getattr(spmm, name), spmm.Error))

    def test_every_public_name_has_a_docstring(self):
        names = [*spmm.__all__, *(name for name, kind in vars(spmm).items() if inspect.isclass(kind))]
        for name in names:
            kind = getattr(spmm, name)
            members = vars(kind).items() if inspect.isclass(kind) else []
            for member, value in [("", kind), *members]:
                if not member.startswith("_"):
                    self.assertTrue(inspect.getdoc(value), f"{name}.{member}")

    def test_readmes(self):
        for path in (ROOT / "README.md", ROOT / "tools/python/README.md"):
            blocks = code_blocks(path, "python")
            self.assertGreater(len(blocks), 0, path)
            for block in blocks:
                expected = re.findall(r"print\(.*\)\s+# (.*)$", block, flags=re.MULTILINE)
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=300,
                                          cwd=folder, env=os.environ)
                self.assertEqual(done.returncode, 0, f"{path}: {done.stderr}")
                self.assertEqual(done.stdout.splitlines(), expected, path)

    def test_numbers_of_the_header(self):
        header = (ROOT / "include/spmm/spmm.h").read_text()
        api, soversion = (re.search(rf"#define {name} (\d+)", header)[1] for name in ("SPMM_C_API", "SPMM_C_SOVERSION"))
        self.assertEqual((_library._C_API, _library._SONAME), (int(api), f"libspmm.so.{soversion}"))

    def test_the_version(self):
        """The project's version is the library's, and what pages say."""
        version = re.search(r"^project\(spmm VERSION (\d+\.\d+\.\d+) ", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        self.assertEqual(spmm.__version__, version)
        said = {"CITATION.cff": r"^version: (\S+)$", "CHANGELOG.md": r"\A# Changelog\n\n## (\S+)$",
                "include/spmm/spmm.h": r'^/\*\*<? ?"spmm (\S+) \(git'}
        for page, pattern in said.items():
            self.assertEqual(re.search(pattern, (ROOT / page).read_text(), re.MULTILINE)[1], version, page)
        for page in ("include/README.md",):
            minor = re.findall(r"find_package\(spmm (\S+) REQUIRED", (ROOT / page).read_text())
            self.assertEqual(minor, [version.rpartition(".")[0]], page)
        with self.assertRaises(AttributeError):
            spmm.no_such_name

    def test_the_c_example(self):
        blocks = [b for b in code_blocks(ROOT / "src/capi/README.md", "c") if "spmm.h" in b]
        self.assertEqual(len(blocks), 1)
        compiler, library = os.environ.get("CC", "cc"), os.environ.get("SPMM_LIBRARY")
        if library is None:
            self.skipTest("SPMM_LIBRARY is not set")
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "example.c"), os.path.join(folder, "example")
            pathlib.Path(source).write_text(blocks[0])
            try:
                subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", source, "-o", program, f"-I{ROOT}/include", library,
                                f"-Wl,-rpath,{os.path.dirname(library)}"], check=True, timeout=300)
            except FileNotFoundError:
                self.skipTest("no C compiler")
            done = subprocess.run([program], capture_output=True, text=True, timeout=300)
        expected = re.findall(r"printf\(.*/\* (.*) \*/$", blocks[0], flags=re.MULTILINE)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, expected), done.stderr)


if __name__ == "__main__":
    unittest.main()
