// ChangeJournal: what was changed on this node since it booted, and what it was before. A line of JSON a change,
// appended before the change is made, so that a process that dies in between leaves a record too many and never one too
// few.
//
//   <run dir>/nodeconfig-changes.jsonl
//
// The settings are the kernel's and end with the boot; so do the records (boot id). Lines are not fsynced for the same
// reason. One process at a time: run_lock() of main.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::nodeconfig {

struct ChangeRecord {
  std::string key, knob, path;
  std::string original;  // Before the first change. Never replaced.
  std::string written;
  std::string read_back;   // When the kernel made something else of it; empty otherwise.
  std::int64_t at_ms = 0;  // Since boot.
  unsigned mends = 0;      // How often somebody else's value was replaced.
  std::int64_t mended_ms = 0;

  // The value that stands there if nobody else wrote.
  const std::string& left() const { return read_back.empty() ? written : read_back; }
  bool operator==(const ChangeRecord&) const = default;
};

std::string encode(const ChangeRecord& record, const std::string& boot_id);
// kGone: a record of another boot.
Result<ChangeRecord> decode_change(std::string_view line, const std::string& boot_id);

class ChangeJournal {
 public:
  // Reads what is there. A last line that was cut is no error; other lines that cannot be read are counted.
  static Result<ChangeJournal> open(const std::string& run_dir, const std::string& boot_id);
  // The same without the right to write, for plan and status.
  static Result<ChangeJournal> read_only(const std::string& run_dir, const std::string& boot_id);

  const std::vector<ChangeRecord>& records() const { return records_; }  // In the order of the first change.
  const ChangeRecord* find(std::string_view key) const;
  unsigned unreadable() const { return unreadable_; }

  Result<void> put(const ChangeRecord& record);
  Result<void> remove(const std::string& key);

 private:
  ChangeJournal(std::string path, std::string boot_id) : path_(std::move(path)), boot_id_(std::move(boot_id)) {}
  Result<void> load();
  Result<void> rewrite();
  Result<void> append(const std::string& line);

  std::string path_, boot_id_;
  std::vector<ChangeRecord> records_;
  UniqueFd fd_;
  std::size_t lines_ = 0;
  unsigned unreadable_ = 0;
};

}  // namespace podlane::nodeconfig
