// A release that runs when its last copy goes, unless it ran before.
#include "engine/product/releasing_sink.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace spmm {
namespace {

/// Calls a release once: when asked to, or else at its end.
class Once {
 public:
  Once() = default;
  ~Once() { call(); }
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  void hold(std::function<void()> release) noexcept { release_ = std::move(release); }

  void call() {
    if (!called_.exchange(true) && release_) release_();
  }

 private:
  std::function<void()> release_;
  std::atomic<bool> called_{false};
};

}  // namespace

std::function<void()> ReleasingSink::made_once(std::function<void()> release) {
  was_used_ = true;
  std::shared_ptr<Once> once;
  try {
    once = std::make_shared<Once>();
  } catch (...) {
    if (release) release();
    throw;
  }
  once->hold(std::move(release));
  return [once] { once->call(); };
}

void ReleasingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  inner_.append(records, made_once(std::move(release)));
}

void ReleasingSink::append_at(std::uint64_t first_block, std::span<const std::byte> records,
                              std::function<void()> release) {
  inner_.append_at(first_block, records, made_once(std::move(release)));
}

}  // namespace spmm
