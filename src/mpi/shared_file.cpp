// The output of a run in one file: rank 0 makes and publishes it, all ranks write into it.
#include "mpi/shared_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/text.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kTokenBytes = 16;

std::string new_token() {
  std::random_device random;
  std::string token(kTokenBytes, '\0');
  for (char& c : token) c = static_cast<char>(random());
  return token;
}

/// 0 if the file begins with the token; else ESTALE, or the error of reading it.
int find_token(int fd, const std::string& token) {
  std::string found(token.size(), '\0');
  for (std::size_t at = 0; at < found.size();) {
    const ssize_t got =
        io::retried([&] { return ::pread(fd, found.data() + at, found.size() - at, static_cast<off_t>(at)); });
    if (got < 0) return errno;
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  return found == token ? 0 : ESTALE;
}

}  // namespace

void SharedOutput::create(const std::filesystem::path& path, const FileSinkOptions& options) {
  options_ = options;
  file_ = std::make_unique<io::OutputFile>(path, options, io::TempKind::shared);
  if (file_->is_device()) return;
  token_ = new_token();
  file_->write_at(0, std::as_bytes(std::span(token_)));
}

Bytes SharedOutput::ticket() const {
  if (!file_) return {};
  // Strings, not a stream: if there is no memory, a stream would leave a part out and report nothing.
  const std::string words =
      (file_->is_device() ? std::string(kTokenBytes, '\0') : token_) + file_->temporary_path().string();
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

void SharedOutput::open(const Bytes& ticket, const std::string& name, const FileSinkOptions& options) {
  options_ = options;
  const std::string words(reinterpret_cast<const char*>(ticket.data()), ticket.size());
  token_ = words.substr(0, kTokenBytes);
  const std::string path = words.substr(kTokenBytes);
  const bool is_device = token_ == std::string(kTokenBytes, '\0');
  const int flags = (is_device ? O_WRONLY | O_NOCTTY : O_RDWR | O_NOFOLLOW) | O_CLOEXEC;
  io::Descriptor found(io::retried([&] { return ::open(path.c_str(), flags); }));
  int error = found.is_open() ? 0 : errno;
  if (found.is_open() && !is_device) error = find_token(found.get(), token_);
  if (error != 0) {
    throw OutputError(name,
                      text("this machine does not see the file ", path, " that rank 0 has made (",
                           error != ESTALE ? io::error_text(error) : "another file is there", ")"),
                      "give an output path on a file system that all nodes share");
  }
  file_ = std::make_unique<io::OutputFile>(name, std::move(found), is_device, options);
}

void SharedOutput::finish(const MatrixHeader& header, std::uint64_t end) {
  // The token is longer than the header: an empty result is cut behind it.
  file_->finish(header, end);
}

}  // namespace spmm::mpi
