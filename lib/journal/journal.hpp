// Journal: the files of the attachments. Written by the CNI plugin, read by it and by the device plugin's reconcile.
//
//   <run dir>/attachments/<stem>.json   AttachmentRecord, tmpfs
//   <run dir>/locks/<stem>              held by whoever works on that attachment
//   <run dir>/pending-del/<stem>.json   key of an attachment whose DEL could not reach the device plugin
//   <state dir>/addresses/<stem>.json   AddressRecord, disk, fsync
//
// Files are replaced by rename, so that a reader sees a whole record or none. Blocking; any thread, any process.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/journal/attachment_record.hpp"

namespace podlane::journal {

// The record files that do not parse stay where they are and are named, so that one of them hides no other.
template <typename Record>
struct Listing {
  std::vector<Record> records;
  std::vector<Error> unreadable;
};

Result<std::string> read_boot_id();  // Changes with each boot.

// The exclusive right to work on one attachment. A child that inherits fd() keeps it until it ends.
class AttachmentLock {
 public:
  AttachmentLock(AttachmentLock&&) = default;
  AttachmentLock& operator=(AttachmentLock&&) = delete;
  // For all who have the descriptor: an IPAM plugin that inherited it may have left a process behind.
  ~AttachmentLock();
  int fd() const { return fd_.get(); }

 private:
  friend class Journal;
  explicit AttachmentLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

class Journal {
 public:
  Journal(std::string run_dir, std::string state_dir)
      : run_dir_(std::move(run_dir)), state_dir_(std::move(state_dir)) {}

  // kBusy when somebody else works on the attachment until the timeout.
  Result<AttachmentLock> lock(const AttachmentKey& key, std::chrono::milliseconds timeout) const;
  // Removes the lock's file, before the lock itself goes. For the end of an attachment.
  Result<void> retire_lock(const AttachmentKey& key, const AttachmentLock& lock) const;

  Result<void> write(const AttachmentRecord& record) const;
  Result<std::optional<AttachmentRecord>> read(const AttachmentKey& key) const;  // Empty: no such file.
  Result<void> remove(const AttachmentKey& key) const;                           // Missing is success.
  Result<Listing<AttachmentRecord>> list() const;

  Result<void> write_addresses(const AddressRecord& record) const;
  Result<std::optional<AddressRecord>> read_addresses(const AttachmentKey& key) const;
  Result<void> remove_addresses(const AttachmentKey& key) const;
  Result<Listing<AddressRecord>> list_addresses() const;

  // Removes what a writer that was killed between its temporary file and the rename left. Under the lock only.
  Result<void> sweep(const AttachmentKey& key) const;

  Result<void> write_pending_delete(const AttachmentKey& key) const;
  Result<void> remove_pending_delete(const AttachmentKey& key) const;
  Result<bool> has_pending_delete(const AttachmentKey& key) const;
  Result<Listing<AttachmentKey>> list_pending_deletes() const;

 private:
  std::string path(const char* folder, const AttachmentKey& key) const;
  std::string addresses_path(const AttachmentKey& key) const;

  std::string run_dir_;
  std::string state_dir_;
};

}  // namespace podlane::journal
