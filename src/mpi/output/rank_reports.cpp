// Reports of ranks as bytes for other ranks.
#include "mpi/output/rank_reports.hpp"

#include <cstring>
#include <sstream>

namespace spmm::mpi {
namespace {

Bytes as_bytes(const std::string& words) {
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

std::istringstream as_words(const Bytes& bytes) {
  return std::istringstream(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

Bytes encode(const RankReport& rank) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);
  out.precision(17);
  out << rank.pairs << ' ' << rank.num_blocks << ' ' << rank.divide_s << ' ' << rank.fetch_s << ' ' << rank.multiply_s
      << ' ' << rank.wait_s << ' ' << rank.write_s << ' ' << rank.merge_s << ' ' << rank.received_bytes << ' '
      << rank.peak_host_bytes << ' ' << rank.peak_device_bytes << '\n'
      << rank.host << '\n'
      << rank.backend << '\n'
      << rank.kernel << '\n'
      << rank.device << '\n';
  return as_bytes(out.str());
}

RankReport decode(const Bytes& bytes) {
  std::istringstream in = as_words(bytes);
  RankReport rank;
  in >> rank.pairs >> rank.num_blocks >> rank.divide_s >> rank.fetch_s >> rank.multiply_s >> rank.wait_s >>
      rank.write_s >> rank.merge_s >> rank.received_bytes >> rank.peak_host_bytes >> rank.peak_device_bytes;
  in.ignore();
  for (std::string* const word : {&rank.host, &rank.backend, &rank.kernel, &rank.device}) std::getline(in, *word);
  return rank;
}

}  // namespace spmm::mpi
