#include "tools/convert/npy_writer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/convert/npy_header.hpp"
#include "tools/convert/streamed_output.hpp"

namespace spmm::tools {

void write_npy(const std::filesystem::path& path, BlockWalk& walk, const ArrayElements& elements) {
  constexpr std::uint64_t kMaxPanelBytes = std::uint64_t{4} << 30;
  const MatrixShape shape = walk.shape();
  const std::uint64_t row_bytes = shape.columns * elements.item_bytes();
  const std::uint64_t panel_rows = std::min<std::uint64_t>(walk.m(), shape.rows);
  if (row_bytes * panel_rows > kMaxPanelBytes || row_bytes > (std::uint64_t{1} << 62) / shape.rows) {
    throw OutOfMemory(path.string(),
                      text("a dense array of ", shape.rows, " x ", shape.columns, " elements of ",
                           elements.item_bytes(), " bytes is too large"),
                      "write .npz or .mtx, or cut a part out with --shape");
  }
  StreamedOutput out(path);
  const std::string head = make_npy_header(elements.descr(), {shape.rows, shape.columns});
  out.write(std::as_bytes(std::span(head)));
  std::vector<std::byte> panel(row_bytes * panel_rows);
  std::uint64_t next_row = 0;  // rows written so far
  walk.rewind();
  for (bool more = walk.next(); more;) {
    const std::uint32_t i = walk.at().i;
    const std::uint32_t rows = walk.rows_inside();
    out.skip((std::uint64_t{i} * walk.m() - next_row) * row_bytes);
    std::fill(panel.begin(), panel.end(), std::byte{0});
    for (; more && walk.at().i == i; more = walk.next()) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        elements.put(panel.data() + r * row_bytes + std::uint64_t{walk.at().j} * walk.m() * elements.item_bytes(),
                     walk.elements().subspan(std::size_t{r} * walk.m(), walk.columns_inside()));
      }
    }
    out.write(std::span(panel).first(rows * row_bytes));
    next_row = std::uint64_t{i} * walk.m() + rows;
  }
  out.skip((shape.rows - next_row) * row_bytes);
  out.publish();
}

}  // namespace spmm::tools
