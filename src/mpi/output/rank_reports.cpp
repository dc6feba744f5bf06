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

Bytes encode(const RankPart& part) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);
  out.precision(17);
  out << part.pairs << ' ' << part.num_blocks << ' ' << part.divide_s << ' ' << part.fetch_s << ' ' << part.multiply_s
      << ' ' << part.wait_s << ' ' << part.write_s << ' ' << part.merge_s << ' ' << part.received_bytes << ' '
      << part.peak_host_bytes << ' ' << part.peak_device_bytes << '\n'
      << part.host << '\n'
      << part.backend << '\n'
      << part.kernel << '\n'
      << part.device << '\n';
  return as_bytes(out.str());
}

RankPart decode(const Bytes& bytes) {
  std::istringstream in = as_words(bytes);
  RankPart part;
  in >> part.pairs >> part.num_blocks >> part.divide_s >> part.fetch_s >> part.multiply_s >> part.wait_s >>
      part.write_s >> part.merge_s >> part.received_bytes >> part.peak_host_bytes >> part.peak_device_bytes;
  in.ignore();
  for (std::string* const word : {&part.host, &part.backend, &part.kernel, &part.device}) std::getline(in, *word);
  return part;
}

Bytes encode(const std::vector<ResultPart>& parts) {
  std::string words;
  for (const ResultPart& part : parts) {
    words += part.file;
    for (const std::uint64_t number : {std::uint64_t{part.row_begin}, std::uint64_t{part.row_end},
                                       std::uint64_t{part.num_blocks}, part.bytes, std::uint64_t{part.crc32}}) {
      words += ' ';
      words += std::to_string(number);
    }
    words += '\n';
  }
  return as_bytes(words);
}

std::vector<ResultPart> decode_parts(const Bytes& bytes) {
  std::istringstream in = as_words(bytes);
  std::vector<ResultPart> parts;
  for (ResultPart part;
       in >> part.file >> part.row_begin >> part.row_end >> part.num_blocks >> part.bytes >> part.crc32;) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace spmm::mpi
