// spmm-convert: matrices of other programs to block-sparse files, and back.
#include <chrono>
#include <iostream>
#include <string>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "tools/convert/convert.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-convert a.mtx a.bin --block 8
  spmm-convert b.mtx b.bin --like a.bin
  spmm a.bin b.bin c.bin && spmm-convert c.bin c.mtx --shape 3000x200
  spmm a.bin a.bin aa.bin && spmm-convert aa.bin aa16.bin && spmm aa16.bin a.bin aaa.bin
  spmm-convert prices.mtx p.bin --scale 100 --round           hundredths as whole numbers
  spmm-convert p2.bin p2.mtx --scale 1/10000                  their products

One of IN and OUT is a block-sparse file (.bin), the other one is a .bin too or
  .mtx   Matrix Market: coordinate; integer, unsigned-integer, real or pattern (each element 1); general,
         symmetric or hermitian. Written: coordinate, general; integer, or real with --scale
NumPy's .npy and .npz: python3 -m spmm convert IN OUT.
IN is known by its content, OUT by its ending: .mtx, else it is a .bin.

To .bin: elements that are stored several times are added up, exactly. A sum, times --scale, must be a whole number from 0 to
65535. Any other is an error that names the place, and nothing is written, unless --round or --on-overflow saturate is
given; the last line says how many were rounded, raised to 0 and cut to 65535. Rectangular matrices are padded with
zeros to a square. Both operands of a product need one n and one m: convert the second with --like FIRST.bin, or both
with the same --n and --block. --block auto takes the side of 1 to 16, 32 and 64 whose file is the shortest.

.bin to .bin: a result becomes an operand of the next product: its elements of 32 bits become elements of 16 bits by
the same rule; n and the side of the blocks stay.

From .bin: inputs (16-bit elements) and results (32-bit) are told apart by their lengths; --type says it if both fit.
--shape cuts the padding off. Elements keep the order of the file. With --scale they become real.

Exit codes: 0 written, 2 usage, 65 IN breaks its format or has elements that do not fit, 66 no such file, 71 memory,
73 cannot create OUT, 74 reading or writing failed, 75 interrupted (nothing was written).
)";

int run(const cli::ParsedOptions& parsed) {
  const tools::ConvertOptions options = tools::parse_convert_options(parsed);
  const auto start = std::chrono::steady_clock::now();
  const std::string summary = tools::convert_file(options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!options.quiet) std::cout << text(printable(summary), ", in ", seconds.count(), " s\n");
  return cli::kOk;
}

}  // namespace

int spmm::tools::convert_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-convert", .options = tools::make_convert_options, .notes = kNotes}, argc, argv,
                          run);
}
