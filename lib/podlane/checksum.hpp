// The Internet checksum (RFC 1071) over plain bytes. Pure; any thread.
//
// Sums are kept in the machine's byte order and folded late: the one's complement sum does not care about the order of the
// bytes as long as the result is stored the way the words were read (RFC 1071, 2 (B)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace podlane {

// Adds bytes to a running sum. Every span but the last must have an even length.
inline std::uint64_t checksum_add(std::uint64_t sum, const std::uint8_t* bytes, std::size_t length) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;  // Four chains, so that additions do not wait for each other.
  while (length >= 16) {
    std::uint32_t words[4];
    std::memcpy(words, bytes, sizeof(words));
    a += words[0];
    b += words[1];
    c += words[2];
    d += words[3];
    bytes += 16;
    length -= 16;
  }
  sum += (a & 0xffffffff) + (a >> 32);
  sum += (b & 0xffffffff) + (b >> 32);
  sum += (c & 0xffffffff) + (c >> 32);
  sum += (d & 0xffffffff) + (d >> 32);
  while (length >= 2) {
    std::uint16_t word;
    std::memcpy(&word, bytes, 2);
    sum += word;
    bytes += 2;
    length -= 2;
  }
  if (length == 1) {
    std::uint16_t word = 0;
    std::memcpy(&word, bytes, 1);
    sum += word;
  }
  return sum;
}

// 16-bit one's complement sum, not inverted, in the machine's byte order.
inline std::uint16_t checksum_fold(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace podlane
