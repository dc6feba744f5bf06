// Reads bytes of a file from front to back.
#include "tools/convert/mtx/byte_input.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/system/descriptor.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

class FileInput : public ByteInput {
 public:
  FileInput(std::string name, io::Descriptor fd, std::uint64_t size)
      : name_(std::move(name)), fd_(std::move(fd)), size_(size) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

  std::size_t read(std::span<std::byte> dst) override {
    cli::check_cancelled("spmm-convert");
    std::size_t done = 0;
    while (done < dst.size()) {
      const ssize_t got = io::retried(
          [&] { return ::pread(fd_.get(), dst.data() + done, dst.size() - done, static_cast<off_t>(at_)); });
      if (got < 0) {
        throw IoError(at_offset(name_, at_), text("reading failed (", io::error_text(errno), ")"),
                      "check the disk or the connection to it, then run again");
      }
      if (got == 0) break;
      at_ += static_cast<std::uint64_t>(got);
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  std::string name_;
  io::Descriptor fd_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
};

}  // namespace

void ByteInput::read_exactly(std::span<std::byte> dst) {
  const std::size_t got = read(dst);
  if (got == dst.size()) return;
  throw FormatError(name(), text("ends ", dst.size() - got, " bytes too early"), "create or copy the file again");
}

std::unique_ptr<ByteInput> open_byte_input(const std::filesystem::path& path) {
  const std::string name = path.string();
  io::Descriptor fd(io::retried([&] { return ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  struct stat info {};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) {
    throw InputError(name, text("cannot open the file (", io::error_text(errno), "), expected a readable matrix file"),
                     "check the path and the permissions");
  }
  if (!S_ISREG(info.st_mode)) {
    throw InputError(name, text("is ", io::kind_text(info.st_mode), ", expected a regular file"),
                     "store the data in a file first: it may be read more than once");
  }
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // only a hint: a failure changes nothing
  return std::make_unique<FileInput>(name, std::move(fd), static_cast<std::uint64_t>(info.st_size));
}

}  // namespace spmm::tools
