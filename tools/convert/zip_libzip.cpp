#include <zip.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/record_errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/output_file.hpp"
#include "spmm/error.hpp"
#include "tools/convert/zip_files.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kCreateAgain = "create or copy the file again";

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;

struct CloseMember {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Member = std::unique_ptr<zip_file_t, CloseMember>;

class MemberInput : public ByteInput {
 public:
  MemberInput(std::string name, std::shared_ptr<zip_t> archive, Member file, std::uint64_t size)
      : name_(std::move(name)), archive_(std::move(archive)), file_(std::move(file)), size_(size) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

  std::size_t read(std::span<std::byte> dst) override {
    cli::check_cancelled("spmm-convert");
    std::size_t done = 0;
    while (done < dst.size()) {
      const zip_int64_t got = zip_fread(file_.get(), dst.data() + done, dst.size() - done);
      if (got < 0) fail();
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
      read_ += static_cast<std::uint64_t>(got);
    }
    // The checksum is compared by the read that finds the end.
    std::byte beyond{};
    if (read_ == size_ && !dst.empty() && zip_fread(file_.get(), &beyond, 1) < 0) fail();
    return done;
  }

 private:
  [[noreturn]] void fail() const {
    throw FormatError(name_, text("cannot be unpacked (", zip_file_strerror(file_.get()), ")"), kCreateAgain);
  }

  std::string name_;
  std::shared_ptr<zip_t> archive_;
  Member file_;
  std::uint64_t size_;
  std::uint64_t read_ = 0;
};

/// Checks what the directory says about a member: no more bytes than what is packed can unpack to.
/// Errors: FormatError.
void check_claim(const zip_stat_t& info, std::uint64_t archive_bytes, const std::string& name) {
  constexpr std::uint64_t kMostOfDeflate = 1032;  // bytes out of one: runs of 258 equal bytes by two bits each
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    throw FormatError(name,
                      text("is packed by method ", info.comp_method, " of zip, expected 0 (stored) or 8 (deflated)"),
                      "create the file again with scipy.sparse.save_npz");
  }
  const bool is_stored = info.comp_method == ZIP_CM_STORE;
  const bool fits = info.comp_size <= archive_bytes &&
                    (is_stored ? info.size == info.comp_size : info.size / kMostOfDeflate <= info.comp_size);
  if (fits) return;
  throw FormatError(name,
                    text("claims to hold ", info.size, " bytes, more than its ", info.comp_size, " ",
                         is_stored ? "stored" : "deflated", " bytes in an archive of ", archive_bytes, " can be"),
                    kCreateAgain);
}

class LibzipInput : public ZipInput {
 public:
  LibzipInput(std::string name, Archive archive, std::uint64_t bytes)
      : name_(std::move(name)), archive_(std::move(archive)), bytes_(bytes) {}

  [[nodiscard]] bool has(const std::string& member) const override {
    return zip_name_locate(archive_.get(), member.c_str(), 0) >= 0;
  }

  std::unique_ptr<ByteInput> open(const std::string& member) override {
    const std::string name = text(name_, ", ", member);
    const auto fail = [&] {
      throw FormatError(name, text("cannot be read from the archive (", zip_strerror(archive_.get()), ")"),
                        kCreateAgain);
    };
    const zip_int64_t index = zip_name_locate(archive_.get(), member.c_str(), 0);
    if (index < 0) {
      throw FormatError(name_, text("has no member ", member, ", expected what scipy.sparse.save_npz writes"),
                        "create the file with scipy.sparse.save_npz");
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_stat_t info{};
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(archive_.get(), at, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded) fail();
    Member file(zip_fopen_index(archive_.get(), at, 0));
    if (!file) fail();
    check_claim(info, bytes_, name);
    return std::make_unique<MemberInput>(name, archive_, std::move(file), info.size);
  }

 private:
  std::string name_;
  std::shared_ptr<zip_t> archive_;
  std::uint64_t bytes_;
};

/// What libzip writes goes to an output file, wherever in it libzip wants.
class ArchiveTarget {
 public:
  explicit ArchiveTarget(io::OutputFile& file) : file_(file) {}

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<ArchiveTarget*>(self)->answer(data, length, command);
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_WRITABLE;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_WRITE:
        return write({static_cast<const std::byte*>(data), length});
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_SEEK_WRITE: {
        const zip_int64_t to = zip_source_seek_compute_offset(at_, end_, data, length, &error_);
        if (to < 0) return -1;
        at_ = static_cast<std::uint64_t>(to);
        return 0;
      }
      case ZIP_SOURCE_BEGIN_WRITE:
      case ZIP_SOURCE_COMMIT_WRITE:
      case ZIP_SOURCE_ROLLBACK_WRITE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_STAT:  // nothing is there yet
        zip_error_set(&error_, ZIP_ER_READ, ENOENT);
        return -1;
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t write(std::span<const std::byte> bytes) {
    try {
      file_.write_at(at_, bytes);
    } catch (...) {
      failure_ = std::current_exception();
      zip_error_set(&error_, ZIP_ER_WRITE, EIO);
      return -1;
    }
    at_ += bytes.size();
    end_ = std::max(end_, at_);
    return static_cast<zip_int64_t>(bytes.size());
  }

  io::OutputFile& file_;
  zip_error_t error_{};
  std::uint64_t at_ = 0;
  std::uint64_t end_ = 0;
  std::exception_ptr failure_;
};

/// What libzip reads comes from a member that makes its bytes.
class MemberSource {
 public:
  explicit MemberSource(const ZipMember& member) : member_(member) {}

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<MemberSource*>(self)->answer(data, length, command);
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_READABLE;
      case ZIP_SOURCE_OPEN:
        member_.start();
        buffer_.clear();
        begin_ = 0;
        made_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return read(static_cast<std::byte*>(data), length);
      case ZIP_SOURCE_STAT: {
        auto* const info = static_cast<zip_stat_t*>(data);
        zip_stat_init(info);
        info->size = member_.bytes;
        info->valid |= ZIP_STAT_SIZE;
        return sizeof *info;
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t read(std::byte* to, std::uint64_t length) {
    try {
      if (begin_ == buffer_.size()) {
        cli::check_cancelled("spmm-convert");
        buffer_.clear();
        begin_ = 0;
        member_.more(buffer_);
        made_ += buffer_.size();
        if (buffer_.empty() ? made_ != member_.bytes : made_ > member_.bytes) throw_changed_content(member_.from);
      }
    } catch (...) {
      failure_ = std::current_exception();
      zip_error_set(&error_, ZIP_ER_READ, EIO);
      return -1;
    }
    const std::size_t here = std::min<std::uint64_t>(length, buffer_.size() - begin_);
    std::memcpy(to, buffer_.data() + begin_, here);
    begin_ += here;
    return static_cast<zip_int64_t>(here);
  }

  const ZipMember& member_;
  zip_error_t error_{};
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::uint64_t made_ = 0;
  std::exception_ptr failure_;
};

/// Errors: always; what a callback has thrown, else IoError.
[[noreturn]] void throw_write_failure(const std::string& name, const ArchiveTarget& target,
                                      const std::vector<MemberSource>& sources, const char* reason) {
  target.rethrow();
  for (const MemberSource& source : sources) source.rethrow();
  throw IoError(name, text("the archive cannot be written (", reason, ")"), "check the disk, then run again");
}

}  // namespace

std::unique_ptr<ZipInput> open_zip(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::uint64_t bytes = open_byte_input(path)->size();  // says what is wrong with a path
  int code = 0;
  Archive archive(zip_open(name.c_str(), ZIP_RDONLY, &code));
  if (archive) return std::make_unique<LibzipInput>(name, std::move(archive), bytes);
  zip_error_t error{};
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw FormatError(name, text("cannot be read as a zip archive (", reason, ")"), kCreateAgain);
}

void write_zip(const std::filesystem::path& path, const std::vector<ZipMember>& members, bool deflated) {
  const std::string name = path.string();
  io::OutputFile file(path, {});
  std::uint64_t content_bytes = 0;
  for (const ZipMember& member : members) content_bytes += member.bytes;
  if (!deflated) file.expect_bytes(content_bytes);
  ArchiveTarget target(file);
  std::vector<MemberSource> sources(members.begin(), members.end());
  zip_error_t error{};
  zip_source_t* const out = zip_source_function_create(&ArchiveTarget::call, &target, &error);
  if (out == nullptr) throw std::bad_alloc();
  Archive archive(zip_open_from_source(out, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) {
    zip_source_free(out);
    throw_write_failure(name, target, sources, zip_error_strerror(&error));
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    zip_source_t* const source = zip_source_function(archive.get(), &MemberSource::call, &sources[m]);
    const zip_int64_t index = source == nullptr ? -1 : zip_file_add(archive.get(), members[m].name.c_str(), source, 0);
    constexpr zip_uint16_t kFirstDate = 1 << 5 | 1;  // 1980-01-01: the same matrix gives the same bytes
    const auto at = static_cast<zip_uint64_t>(index);
    if (index < 0 || zip_set_file_compression(archive.get(), at, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 1) != 0 ||
        zip_file_set_dostime(archive.get(), at, 0, kFirstDate, 0) != 0) {
      throw_write_failure(name, target, sources, zip_strerror(archive.get()));
    }
  }
  if (zip_close(archive.get()) != 0) throw_write_failure(name, target, sources, zip_strerror(archive.get()));
  [[maybe_unused]] zip_t* const closed = archive.release();
  file.finish();
  file.publish();
}

}  // namespace spmm::tools
