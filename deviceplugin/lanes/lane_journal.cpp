#include "deviceplugin/lanes/lane_journal.hpp"

#include <dirent.h>

#include <memory>

#include "lib/base/file.hpp"

namespace podlane::dp {

Result<LaneJournal> LaneJournal::open(std::string directory, std::string boot_id) {
  PODLANE_TRY(make_directories(directory, 0700));
  return LaneJournal(std::move(directory), std::move(boot_id));
}

Result<void> LaneJournal::save(const LaneRecord& record) {
  auto written = write_file_atomic(path_of(record.device), encode_record(record, boot_id_), Durability::kMemory);
  if (!written) return std::unexpected(std::move(written).error().with("journal lane", record.device).as(Errc::kIo));
  return {};
}

Result<void> LaneJournal::remove(const std::string& device) { return remove_file(path_of(device)); }

Result<LaneJournal::Loaded> LaneJournal::load() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory_.c_str()), &::closedir);
  if (handle == nullptr) return fail_errno("open directory", directory_);
  Loaded loaded;
  while (const dirent* const entry = ::readdir(handle.get())) {
    const std::string name = entry->d_name;
    // A leading dot: a record that was being written when its writer died; the record before it still holds.
    if (name.front() == '.' || !name.ends_with(".json")) continue;
    const std::string path = directory_ + "/" + name;
    const auto text = read_file(path);
    if (!text) {
      loaded.unreadable.emplace_back(path, text.error().message());
      continue;
    }
    auto decoded = decode_record(*text);
    if (!decoded) {
      loaded.unreadable.emplace_back(path, decoded.error().message());
    } else if (decoded->boot_id == boot_id_) {
      loaded.of_this_boot.push_back(std::move(decoded->record));
    } else {
      loaded.of_older_boots.push_back(std::move(decoded->record));
    }
  }
  return loaded;
}

}  // namespace podlane::dp
