#include "lib/journal/journal.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <memory>

#include "lib/base/file.hpp"

namespace podlane::journal {

namespace {

constexpr mode_t kFolderMode = 0700;

// Makes the folder only when the write says that it is missing: it nearly always exists.
Result<void> write_record(const std::string& path, const std::string& text, Durability durability) {
  auto written = write_file_atomic(path, text, durability);
  if (written || written.error().errno_value() != ENOENT) return written;
  PODLANE_TRY(make_directories(path.substr(0, path.rfind('/')), kFolderMode));
  return write_file_atomic(path, text, durability);
}

template <typename Record>
Result<std::optional<Record>> read_record(const std::string& path, Result<Record> (*decode)(std::string_view)) {
  const auto text = read_file(path);
  if (!text && text.error().code() == Errc::kNotFound) return std::optional<Record>();
  if (!text) return std::unexpected(text.error());
  auto record = decode(*text);
  if (!record) return std::unexpected(std::move(record).error().with("record", path));
  return std::optional<Record>(std::move(*record));
}

template <typename Record>
Result<Listing<Record>> list_records(const std::string& folder, Result<Record> (*decode)(std::string_view)) {
  Listing<Record> listing;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  if (directory == nullptr && errno == ENOENT) return listing;
  if (directory == nullptr) return fail_errno("open directory", folder);
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name.starts_with('.') || !name.ends_with(".json")) continue;
    auto record = read_record(folder + "/" + name, decode);
    if (!record) {
      listing.unreadable.push_back(std::move(record).error());
    } else if (*record) {  // Empty: removed since readdir.
      listing.records.push_back(std::move(**record));
    }
  }
  return listing;
}

// A holder may have unlinked the file before we got its lock: then the lock excludes nobody any more.
bool still_at(const std::string& path, int fd) {
  struct stat held {
  }, found{};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &found) == 0 && held.st_dev == found.st_dev &&
         held.st_ino == found.st_ino;
}

}  // namespace

Result<std::string> read_boot_id() {
  PODLANE_TRY_ASSIGN(std::string id, read_file("/proc/sys/kernel/random/boot_id", 256));
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string Journal::path(const char* folder, const AttachmentKey& key) const {
  return run_dir_ + "/" + folder + "/" + file_stem_of(key) + ".json";
}

std::string Journal::addresses_path(const AttachmentKey& key) const {
  return state_dir_ + "/addresses/" + file_stem_of(key) + ".json";
}

Result<AttachmentLock> Journal::lock(const AttachmentKey& key, std::chrono::milliseconds timeout) const {
  const std::string folder = run_dir_ + "/locks";
  const std::string name = folder + "/" + file_stem_of(key);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (bool folder_made = false;;) {
    UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.valid() && errno == ENOENT && !folder_made) {
      PODLANE_TRY(make_directories(folder, kFolderMode));
      folder_made = true;
      continue;
    }
    if (!fd.valid()) return fail_errno("open", name);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (still_at(name, fd.get())) return AttachmentLock(std::move(fd));
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("flock", name);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kBusy, "lock " + name + " is held by another call for the same attachment");
    }
    ::poll(nullptr, 0, 2);  // flock() has no timeout of its own.
  }
}

AttachmentLock::~AttachmentLock() {
  if (fd_.valid()) (void)::flock(fd_.get(), LOCK_UN);
}

Result<void> Journal::retire_lock(const AttachmentKey& key, const AttachmentLock& lock) const {
  const std::string name = run_dir_ + "/locks/" + file_stem_of(key);
  if (!still_at(name, lock.fd())) return {};
  return remove_file(name);
}

Result<void> Journal::write(const AttachmentRecord& record) const {
  return write_record(path("attachments", record.key), encode(record), Durability::kMemory);
}
Result<std::optional<AttachmentRecord>> Journal::read(const AttachmentKey& key) const {
  return read_record(path("attachments", key), decode_attachment_record);
}
Result<void> Journal::remove(const AttachmentKey& key) const {
  return remove_file(path("attachments", key));
}
Result<Listing<AttachmentRecord>> Journal::list() const {
  return list_records(run_dir_ + "/attachments", decode_attachment_record);
}

Result<void> Journal::write_addresses(const AddressRecord& record) const {
  return write_record(addresses_path(record.key), encode(record), Durability::kDisk);
}
Result<std::optional<AddressRecord>> Journal::read_addresses(const AttachmentKey& key) const {
  return read_record(addresses_path(key), decode_address_record);
}
Result<void> Journal::remove_addresses(const AttachmentKey& key) const {
  return remove_file(addresses_path(key));
}
Result<Listing<AddressRecord>> Journal::list_addresses() const {
  return list_records(state_dir_ + "/addresses", decode_address_record);
}

Result<void> Journal::sweep(const AttachmentKey& key) const {
  const std::string prefix = "." + file_stem_of(key) + ".json.";
  for (const std::string& folder : {run_dir_ + "/attachments", run_dir_ + "/pending-del", state_dir_ + "/addresses"}) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
    if (directory == nullptr && errno == ENOENT) continue;
    if (directory == nullptr) return fail_errno("open directory", folder);
    while (const dirent* entry = ::readdir(directory.get())) {
      if (std::string_view(entry->d_name).starts_with(prefix)) PODLANE_TRY(remove_file(folder + "/" + entry->d_name));
    }
  }
  return {};
}

Result<void> Journal::write_pending_delete(const AttachmentKey& key) const {
  return write_record(path("pending-del", key), encode(key), Durability::kMemory);
}
Result<void> Journal::remove_pending_delete(const AttachmentKey& key) const {
  return remove_file(path("pending-del", key));
}
Result<bool> Journal::has_pending_delete(const AttachmentKey& key) const {
  PODLANE_TRY_ASSIGN(const auto found, read_record(path("pending-del", key), decode_key));
  return found.has_value();
}
Result<Listing<AttachmentKey>> Journal::list_pending_deletes() const {
  return list_records(run_dir_ + "/pending-del", decode_key);
}

}  // namespace podlane::journal
