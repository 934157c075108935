#include "nodeconfig/change_journal.hpp"

#include <fcntl.h>

#include <algorithm>

#include "lib/base/file.hpp"
#include "lib/json/json.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr std::size_t kMaxBytes = 64 << 20;
constexpr std::size_t kSlackLines = 256;  // Old lines before the file is written anew.

std::string removal(const std::string& key, const std::string& boot_id) {
  return json::dump(json::Value{{"boot", boot_id}, {"key", key}, {"removed", true}});
}

}  // namespace

std::string encode(const ChangeRecord& record, const std::string& boot_id) {
  json::Value line{{"boot", boot_id},     {"key", record.key},           {"knob", record.knob},
                   {"path", record.path}, {"original", record.original}, {"written", record.written},
                   {"atMs", record.at_ms}};
  if (!record.read_back.empty()) line["readBack"] = record.read_back;
  if (record.mends > 0) {
    line["mends"] = record.mends;
    line["mendedMs"] = record.mended_ms;
  }
  return json::dump(line);
}

Result<ChangeRecord> decode_change(std::string_view line, const std::string& boot_id) {
  constexpr std::int64_t kMaxTime = std::int64_t{1} << 53;
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(line));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(document, ""));
  PODLANE_TRY_ASSIGN(const std::string boot, in.string("boot"));
  if (boot != boot_id) return fail(Errc::kGone, "record of another boot");
  ChangeRecord record;
  PODLANE_TRY_ASSIGN(record.key, in.string("key"));
  PODLANE_TRY_ASSIGN(const auto removed, in.optional_boolean("removed"));
  if (removed.value_or(false)) return record;  // Without a knob.
  PODLANE_TRY_ASSIGN(record.knob, in.string("knob"));
  PODLANE_TRY_ASSIGN(record.path, in.string("path"));
  PODLANE_TRY_ASSIGN(record.original, in.string("original"));
  PODLANE_TRY_ASSIGN(record.written, in.string("written"));
  PODLANE_TRY_ASSIGN(const auto read_back, in.optional_string("readBack"));
  PODLANE_TRY_ASSIGN(record.at_ms, in.integer("atMs", 0, kMaxTime));
  PODLANE_TRY_ASSIGN(const auto mends, in.optional_integer("mends", 0, 1000));
  PODLANE_TRY_ASSIGN(const auto mended, in.optional_integer("mendedMs", 0, kMaxTime));
  if (record.key.empty() || record.knob.empty()) return fail(Errc::kInvalid, "key and knob must not be empty");
  record.read_back = read_back.value_or("");
  record.mends = static_cast<unsigned>(mends.value_or(0));
  if (record.mends > 0) record.mended_ms = mended.value_or(0);  // It has no meaning alone, and is not written alone.
  return record;
}

Result<ChangeJournal> ChangeJournal::read_only(const std::string& run_dir, const std::string& boot_id) {
  ChangeJournal journal(run_dir + "/nodeconfig-changes.jsonl", boot_id);
  PODLANE_TRY(journal.load());
  return journal;
}

Result<ChangeJournal> ChangeJournal::open(const std::string& run_dir, const std::string& boot_id) {
  PODLANE_TRY_ASSIGN(ChangeJournal journal, read_only(run_dir, boot_id));
  // Cut lines, other boots' and old ones go, and the next line begins at the start of a line.
  if (journal.lines_ != journal.records_.size() || journal.unreadable_ > 0) PODLANE_TRY(journal.rewrite());
  return journal;
}

Result<void> ChangeJournal::load() {
  const auto text = read_file(path_, kMaxBytes);
  if (!text && text.error().code() == Errc::kNotFound) return {};
  if (!text) return std::unexpected(text.error());
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const bool cut = end == rest.npos;
    rest.remove_prefix(cut ? rest.size() : end + 1);
    ++lines_;
    auto record = decode_change(line, boot_id_);
    if (cut) {
      lines_ += 1;  // Its newline is missing even when the rest is whole.
      if (!record) continue;
    }
    if (!record) {
      if (record.error().code() != Errc::kGone) ++unreadable_;
      continue;
    }
    const auto old =
        std::find_if(records_.begin(), records_.end(), [&](const ChangeRecord& r) { return r.key == record->key; });
    if (record->knob.empty()) {
      if (old != records_.end()) records_.erase(old);
    } else if (old != records_.end()) {
      *old = std::move(*record);
    } else {
      records_.push_back(std::move(*record));
    }
  }
  return {};
}

const ChangeRecord* ChangeJournal::find(std::string_view key) const {
  const auto it = std::find_if(records_.begin(), records_.end(), [&](const ChangeRecord& r) { return r.key == key; });
  return it == records_.end() ? nullptr : &*it;
}

Result<void> ChangeJournal::put(const ChangeRecord& record) {
  PODLANE_TRY(append(encode(record, boot_id_)));
  const auto old =
      std::find_if(records_.begin(), records_.end(), [&](const ChangeRecord& r) { return r.key == record.key; });
  if (old == records_.end()) records_.push_back(record);
  else *old = record;
  return {};
}

Result<void> ChangeJournal::remove(const std::string& key) {
  PODLANE_TRY(append(removal(key, boot_id_)));
  std::erase_if(records_, [&](const ChangeRecord& r) { return r.key == key; });
  if (lines_ > records_.size() * 2 + kSlackLines || records_.empty()) return rewrite();
  return {};
}

Result<void> ChangeJournal::rewrite() {
  std::string text;
  for (const ChangeRecord& record : records_) text += encode(record, boot_id_) + "\n";
  fd_.reset();
  PODLANE_TRY(make_directories(path_.substr(0, path_.rfind('/'))));
  PODLANE_TRY(write_file_atomic(path_, text, Durability::kMemory));
  lines_ = records_.size();
  unreadable_ = 0;
  return {};
}

Result<void> ChangeJournal::append(const std::string& line) {
  if (!fd_.valid()) {
    PODLANE_TRY(make_directories(path_.substr(0, path_.rfind('/'))));
    fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!fd_.valid()) return fail_errno("open", path_);
  }
  const std::string whole = line + "\n";
  const ssize_t n = ::write(fd_.get(), whole.data(), whole.size());
  if (n < 0) return fail_errno("write", path_);
  if (static_cast<std::size_t>(n) != whole.size()) return fail(Errc::kIo, "write " + path_ + ": disk full");
  ++lines_;
  return {};
}

}  // namespace podlane::nodeconfig
