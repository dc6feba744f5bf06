// The output of a run in one file: rank 0 makes and publishes it, all ranks write into it.
#include "mpi/output/shared_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/text.hpp"
#include "io/system/retried.hpp"
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
  const std::string words = std::string(file_->is_device() ? "d" : "f") + (options_.durable ? "s" : "-") +
                            std::to_string(token_.size()) + " " + token_ + std::to_string(file_->name().size()) + " " +
                            file_->name() + file_->temporary_path().string();
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

void SharedOutput::open(const Bytes& ticket) {
  std::string words(reinterpret_cast<const char*>(ticket.data()), ticket.size());
  const auto take = [&] {
    std::size_t digits = 0;
    const std::size_t size = std::stoul(words, &digits);
    const std::string value = words.substr(digits + 1, size);
    words.erase(0, digits + 1 + size);
    return value;
  };
  const bool is_device = words[0] == 'd';
  options_.durable = words[1] == 's';
  words.erase(0, 2);
  token_ = take();
  const std::string name = take();
  const std::string& path = words;
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
  file_ = std::make_unique<io::OutputFile>(name, std::move(found), is_device, options_);
}

void SharedOutput::finish(const MatrixHeader& header, std::uint64_t end) {
  // The token is longer than the header: an empty result is cut behind it.
  file_->finish(header, end);
}

}  // namespace spmm::mpi
