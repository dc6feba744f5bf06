#include "dist/rank_parts.hpp"

#include <cstring>
#include <sstream>

namespace spmm::dist {

Bytes encode(const RankPart& part) {
  std::ostringstream out;
  out.precision(17);
  out << part.pairs << ' ' << part.num_blocks << ' ' << part.divide_s << ' ' << part.fetch_s << ' ' << part.multiply_s
      << ' ' << part.wait_s << ' ' << part.write_s << ' ' << part.merge_s << ' ' << part.received_bytes << ' '
      << part.peak_host_bytes << ' ' << part.peak_device_bytes << '\n'
      << part.host << '\n'
      << part.backend << '\n'
      << part.kernel << '\n'
      << part.device << '\n';
  const std::string words = out.str();
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

RankPart decode(const Bytes& bytes) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  RankPart part;
  in >> part.pairs >> part.num_blocks >> part.divide_s >> part.fetch_s >> part.multiply_s >> part.wait_s >>
      part.write_s >> part.merge_s >> part.received_bytes >> part.peak_host_bytes >> part.peak_device_bytes;
  in.ignore();
  for (std::string* const word : {&part.host, &part.backend, &part.kernel, &part.device}) std::getline(in, *word);
  return part;
}

}  // namespace spmm::dist
