// Messages between supervisor and worker as packets.
#include "tools/batch/worker/message.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace spmm::batch {
namespace {

constexpr std::size_t kMaxText = 8192;

/// Packs values one after the other: numbers as they lie in memory (both sides are one program on one machine).
class Packer {
 public:
  explicit Packer(std::vector<std::byte>& to) : to_(to) {}

  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }

 private:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    to_.insert(to_.end(), first, first + sizeof value);
  }
  void put(const std::string& value) {
    const std::size_t size = std::min(value.size(), kMaxText);
    put(size);
    const auto* const first = reinterpret_cast<const std::byte*>(value.data());
    to_.insert(to_.end(), first, first + size);
  }

  std::vector<std::byte>& to_;
};

/// Takes the values out again. Errors: std::runtime_error (packet too short).
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> from) : from_(from) {}

  template <class... Values>
  void operator()(Values&... values) {
    (take(values), ...);
  }

 private:
  std::span<const std::byte> next(std::size_t size) {
    if (size > from_.size()) throw std::runtime_error("spmm-batch: a packet between its processes is too short");
    const auto bytes = from_.first(size);
    from_ = from_.subspan(size);
    return bytes;
  }
  template <class T>
  void take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
  }
  void take(std::string& value) {
    std::size_t size = 0;
    take(size);
    const auto bytes = next(size);
    value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::span<const std::byte> from_;
};

/// The fields of each message, once for both directions.
template <class Visit, class Order>
void order_fields(Visit& visit, Order& o) {
  auto& j = o.job;
  visit(o.id, j.line, j.a, j.b, j.out, j.options.backend, j.options.kernel, j.options.verify_blocks,
        j.options.on_saturation, j.options.transpose_a, j.options.transpose_b, j.options.rows, j.options.durable,
        j.options.no_clobber, o.num_threads);
}

template <class Visit, class Result>
void result_fields(Visit& visit, Result& r) {
  visit(r.id, r.exit_code, r.seconds, r.num_threads, r.in_bytes, r.out_bytes, r.pairs, r.saturated_elements, r.backend,
        r.kernel, r.message);
}

template <class Visit, class AnyMessage>
void fields(Visit& visit, AnyMessage& message) {
  using T = std::remove_const_t<AnyMessage>;
  if constexpr (std::is_same_v<T, JobOrder>) {
    order_fields(visit, message);
  } else if constexpr (std::is_same_v<T, JobResult>) {
    result_fields(visit, message);
  } else {
    visit(message.id);
  }
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> packet;
  packet.reserve(512);
  packet.push_back(static_cast<std::byte>(message.index()));
  Packer pack(packet);
  std::visit([&](const auto& m) { fields(pack, m); }, message);
  return packet;
}

Message decode(std::span<const std::byte> packet) {
  if (packet.empty()) throw std::runtime_error("spmm-batch: an empty packet between its processes");
  Unpacker unpack(packet.subspan(1));
  Message message;
  switch (std::to_integer<std::size_t>(packet[0])) {
    case 0:
      message = JobOrder{};
      break;
    case 1:
      message = CancelOrder{};
      break;
    case 2:
      message = JobResult{};
      break;
    default:
      throw std::runtime_error("spmm-batch: an unknown packet between its processes");
  }
  std::visit([&](auto& m) { fields(unpack, m); }, message);
  return message;
}

SendState send_message(int socket, const Message& message, bool wait) {
  const auto packet = encode(message);
  while (true) {
    if (::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0) {
      return SendState::sent;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? SendState::full : SendState::closed;
  }
}

Received receive_message(int socket, bool wait) {
  std::array<std::byte, kMaxPacket> packet;
  while (true) {
    const ssize_t got = ::recv(socket, packet.data(), packet.size(), wait ? 0 : MSG_DONTWAIT);
    if (got > 0) return {.message = decode(std::span(packet).first(static_cast<std::size_t>(got)))};
    if (got == 0) return {.message = std::nullopt, .closed = true};
    if (errno == EINTR) continue;
    return {.message = std::nullopt, .closed = errno != EAGAIN && errno != EWOULDBLOCK};
  }
}

}  // namespace spmm::batch
