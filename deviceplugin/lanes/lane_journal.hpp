// LaneJournal: one file per lane, written before the kernel is changed, so that a restart or a reconcile knows what may
// exist. On tmpfs: what it describes is forgotten by the kernel at reboot too, and no write waits for a disk. Each record
// carries the boot's id, for run directories that do outlive a reboot. One thread (the table's state thread).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "deviceplugin/lanes/lane_state.hpp"

namespace podlane::dp {

class LaneJournal {
 public:
  static Result<LaneJournal> open(std::string directory, std::string boot_id);

  Result<void> save(const LaneRecord& record);
  Result<void> remove(const std::string& device);  // Success when there is none.

  struct Loaded {
    std::vector<LaneRecord> of_this_boot;
    std::vector<LaneRecord> of_older_boots;
    std::vector<std::pair<std::string, std::string>> unreadable;  // File, reason. Nothing is done with them.
  };
  Result<Loaded> load() const;

 private:
  LaneJournal(std::string directory, std::string boot_id)
      : directory_(std::move(directory)), boot_id_(std::move(boot_id)) {}
  std::string path_of(const std::string& device) const { return directory_ + "/" + device + ".json"; }

  std::string directory_;
  std::string boot_id_;
};

}  // namespace podlane::dp
