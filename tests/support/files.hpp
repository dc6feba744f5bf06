// Folders, bytes of files, variables of the environment, and what is said of an error.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace spmm::test {

bool has(const std::string& text, const std::string& part);

/// Bytes of a file; "" if there is none.
std::string bytes_of(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);

/// Names in a folder, sorted, but for the known ones.
std::vector<std::string> names_in(const std::filesystem::path& folder, const std::vector<std::string>& known = {});

/// A fresh folder, removed with everything in it; other users may write there.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::vector<std::string> names() const { return names_in(path_); }

 private:
  std::filesystem::path path_;
};

/// A fresh folder that is the working directory while it lives.
class WorkingFolder {
 public:
  WorkingFolder();
  ~WorkingFolder();
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  TemporaryFolder folder_;
  std::filesystem::path before_;
};

/// A variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_{};
};

/// The message of the E that `action` throws. Other exceptions pass.
template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

}  // namespace spmm::test
