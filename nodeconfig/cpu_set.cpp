#include "nodeconfig/cpu_set.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

namespace podlane::nodeconfig {

namespace {

constexpr unsigned kBits = 32;

std::unexpected<Error> wrong_list(std::string_view text) {
  return fail(Errc::kInvalid, "CPU list '" + std::string(text.substr(0, 80)) + "' must be numbers below " +
                                  std::to_string(CpuSet::kMax) + " and ranges of them, such as \"0-3,8\"");
}

// A whole number that begins text; text then starts behind it.
bool take_number(std::string_view& text, unsigned& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

}  // namespace

Result<CpuSet> CpuSet::parse_list(std::string_view text) {
  CpuSet set;
  std::string_view rest = trimmed(text);
  if (rest.empty() || rest == "(null)") return set;
  for (;;) {
    unsigned low = 0;
    if (!take_number(rest, low) || low >= kMax) return wrong_list(text);
    unsigned high = low;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      if (!take_number(rest, high) || high >= kMax || high < low) return wrong_list(text);
    }
    for (unsigned cpu = low; cpu <= high; ++cpu) set.add(cpu);
    if (rest.empty()) return set;
    if (!rest.starts_with(',')) return wrong_list(text);
    rest.remove_prefix(1);
  }
}

Result<CpuSet> CpuSet::parse_mask(std::string_view text) {
  CpuSet set;
  std::string_view rest = trimmed(text);
  std::vector<std::uint32_t> from_highest;
  while (true) {
    const std::string_view word = rest.substr(0, rest.find(','));
    unsigned value = 0;
    std::string_view digits = word;
    if (word.empty() || word.size() > 8 || !take_number(digits, value, 16) || !digits.empty() ||
        from_highest.size() == kMax / kBits) {
      return fail(Errc::kInvalid, "CPU mask '" + std::string(text.substr(0, 80)) +
                                      "' must be hexadecimal words of 32 bits, such as \"ff,00000000\"");
    }
    from_highest.push_back(value);
    if (word.size() == rest.size()) break;
    rest.remove_prefix(word.size() + 1);
  }
  set.words_.assign(from_highest.rbegin(), from_highest.rend());
  set.trim();
  return set;
}

std::string CpuSet::list() const {
  std::string text;
  const std::vector<unsigned> all = cpus();
  for (std::size_t at = 0; at < all.size();) {
    std::size_t end = at;
    while (end + 1 < all.size() && all[end + 1] == all[end] + 1) ++end;
    text.append(text.empty() ? "" : ",").append(std::to_string(all[at]));
    if (end > at) text.append("-").append(std::to_string(all[end]));
    at = end + 1;
  }
  return text;
}

std::string CpuSet::mask() const {
  if (words_.empty()) return "0";
  std::string text;
  for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
    char digits[9];
    const auto end = std::to_chars(digits, digits + 8, *word, 16).ptr;
    if (!text.empty()) text.append(",").append(8 - static_cast<std::size_t>(end - digits), '0');
    text.append(digits, end);
  }
  return text;
}

void CpuSet::add(unsigned cpu) {
  if (cpu / kBits >= words_.size()) words_.resize(cpu / kBits + 1);
  words_[cpu / kBits] |= 1U << (cpu % kBits);
}

bool CpuSet::contains(unsigned cpu) const {
  return cpu / kBits < words_.size() && (words_[cpu / kBits] >> (cpu % kBits) & 1U) != 0;
}

unsigned CpuSet::count() const {
  unsigned count = 0;
  for (const std::uint32_t word : words_) count += static_cast<unsigned>(std::popcount(word));
  return count;
}

std::vector<unsigned> CpuSet::cpus() const {
  std::vector<unsigned> all;
  for (unsigned cpu = 0; cpu < words_.size() * kBits; ++cpu) {
    if (contains(cpu)) all.push_back(cpu);
  }
  return all;
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet result;
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
    result.words_.push_back(words_[i] & other.words_[i]);
  }
  result.trim();
  return result;
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet result = words_.size() >= other.words_.size() ? *this : other;
  const CpuSet& shorter = words_.size() >= other.words_.size() ? other : *this;
  for (std::size_t i = 0; i < shorter.words_.size(); ++i) result.words_[i] |= shorter.words_[i];
  return result;
}

CpuSet CpuSet::operator-(const CpuSet& other) const {
  CpuSet result = *this;
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) result.words_[i] &= ~other.words_[i];
  result.trim();
  return result;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace podlane::nodeconfig
