// What one row of the table of knobs says; the rows are in knobs.hpp. Constants only; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace podlane::nodeconfig {

// What a knob is one of. '%' in key and path stands for its number or name, from left to right.
enum class Scope { kNode, kNumaNode, kNic, kRxQueue, kTxQueue, kIrq, kPolicy, kCpu };

// How the file reads, which decides how two values compare.
enum class Format {
  kWord,    // As it is.
  kNumber,  // Decimal.
  kChoice,  // "always [madvise] never": the word in brackets; the others are what can be chosen.
  kList,    // CPU list.
  kMask,    // CPU mask.
};

// What the profile may say beside "leave".
enum class Takes {
  kWords,    // One of `words`.
  kNumber,   // low to high.
  kOffered,  // A word that the file `offered` lists: what it is depends on the driver.
  kCpus,     // A CPU list, "housekeeping"; "local" and "off" where the row says so.
};

struct Word {
  std::string_view said, written;
};

struct Knob {
  std::string_view name;  // "memory.thp"; of a NIC "nics.rps".
  Scope scope;
  std::string_view key;  // Identity in journal and reports.
  std::string_view path;
  Format format;
  Takes takes;
  std::span<const Word> words = {};
  std::int64_t low = 0, high = 0;
  std::string_view offered = {};  // File with the words that can be chosen, beside `path`.
  std::string_view limit = {};    // File beside `path` with the largest number that the driver takes.
  bool disruptive = false;        // Packets are lost for a moment: not while lanes use the NIC.
  std::string_view needs = {};  // Directory without which the file has no meaning, and in `needs_words` what that says.
  std::string_view needs_words = {};
  std::string_view effect;
  std::string_view why;
};

}  // namespace podlane::nodeconfig
