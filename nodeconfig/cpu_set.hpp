// CpuSet: a set of CPU numbers, in the kernel's two spellings. Any thread.
//
// List, as in smp_affinity_list: "0-3,8". Mask, as in default_smp_affinity: hexadecimal words of 32 bits from the
// highest down, "ff,00000000"; leading zeros and whole words may be missing (cpumask_parse, lib/bitmap-str.c).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::nodeconfig {

class CpuSet {
 public:
  static constexpr unsigned kMax = 8192;  // NR_CPUS of the largest builds.

  CpuSet() = default;
  // "" and "(null)" are the empty set: nohz_full reads so on Linux 6.x when it is unset.
  static Result<CpuSet> parse_list(std::string_view text);
  static Result<CpuSet> parse_mask(std::string_view text);

  std::string list() const;  // "" when empty.
  std::string mask() const;  // "0" when empty.

  void add(unsigned cpu);
  bool contains(unsigned cpu) const;
  bool empty() const { return words_.empty(); }
  unsigned count() const;
  std::vector<unsigned> cpus() const;
  bool within(const CpuSet& other) const { return (*this - other).empty(); }
  bool meets(const CpuSet& other) const { return !(*this & other).empty(); }

  CpuSet operator&(const CpuSet& other) const;
  CpuSet operator|(const CpuSet& other) const;
  CpuSet operator-(const CpuSet& other) const;
  bool operator==(const CpuSet& other) const { return words_ == other.words_; }

 private:
  void trim();

  std::vector<std::uint32_t> words_;  // Lowest CPUs first; the last word is never 0.
};

}  // namespace podlane::nodeconfig
