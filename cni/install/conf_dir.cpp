#include "cni/install/conf_dir.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/file.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::cni {

namespace {

struct Names {
  std::vector<std::string> files, directories;
};

Result<Names> names_in(const std::string& directory) {
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr) return fail_errno("open directory", directory);
  const ScopeGuard close([&] { ::closedir(stream); });
  Names names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat facts {};
    if (::stat((directory + "/" + name).c_str(), &facts) != 0) continue;  // Gone meanwhile, or a link to nothing.
    (S_ISDIR(facts.st_mode) ? names.directories : names.files).push_back(name);
  }
  std::sort(names.files.begin(), names.files.end());
  return names;
}

// A link is followed: what the runtime reads is what is edited.
Result<std::string> real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return fail_errno("resolve", path);
  std::string result(resolved);
  ::free(resolved);
  return result;
}

}  // namespace

Result<std::vector<std::string>> configuration_names(const std::string& directory) {
  PODLANE_TRY_ASSIGN(const Names names, names_in(directory));
  std::vector<std::string> found;
  for (const std::string& name : names.files) {
    if (name.ends_with(".conf") || name.ends_with(".conflist") || name.ends_with(".json")) found.push_back(name);
  }
  return found;
}

Result<std::optional<ConfFile>> first_list(const std::string& directory) {
  PODLANE_TRY_ASSIGN(const auto names, configuration_names(directory));
  if (names.empty()) return std::optional<ConfFile>();
  ConfFile file{.path = directory + "/" + names.front()};
  PODLANE_TRY_ASSIGN(file.text, read_file(file.path));
  auto list = read_list(file.text);
  if (!list) return std::unexpected(std::move(list).error().with(file.path));
  if (!names.front().ends_with(".conflist")) {
    return fail(Errc::kInvalid, file.path +
                                    " is read as a single plugin for its name; nothing can be chained to it. "
                                    "Its owner must write a .conflist");
  }
  file.list = std::move(*list);
  return std::optional<ConfFile>(std::move(file));
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  PODLANE_TRY_ASSIGN(const std::string target, real_path(path));
  struct stat before {};
  if (::stat(target.c_str(), &before) != 0) return fail_errno("stat", target);
  // Ends in no suffix that a runtime looks for.
  const std::size_t slash = target.rfind('/') + 1;
  const std::string fresh = target.substr(0, slash) + "." + target.substr(slash) + ".podlane";
  PODLANE_TRY(remove_file(fresh));
  PODLANE_TRY(write_file_atomic(fresh, text, Durability::kDisk, 0600));
  ScopeGuard remove_fresh([&] { ::unlink(fresh.c_str()); });
  struct stat made {};
  if (::stat(fresh.c_str(), &made) != 0) return fail_errno("stat", fresh);
  // Without CAP_CHOWN a foreign owner cannot be kept, and then the file is left alone.
  if ((made.st_uid != before.st_uid || made.st_gid != before.st_gid) &&
      ::chown(fresh.c_str(), before.st_uid, before.st_gid) != 0) {
    return fail_errno("keep the owner of", target);
  }
  if (::chmod(fresh.c_str(), before.st_mode & 07777) != 0) return fail_errno("chmod", fresh);
  if (::rename(fresh.c_str(), target.c_str()) != 0) return fail_errno("rename to", target);
  remove_fresh.release();
  return {};
}

std::string drop_in_path(const std::string& directory, const std::string& network) {
  return directory + "/" + network + "/" + std::string(kDropInName);
}

Result<void> poke(const std::string& directory) {
  const std::string path = directory + "/.podlane-reload";
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno("create", path);
  if (::write(fd.get(), "\n", 1) != 1) return fail_errno("write", path);
  return remove_file(path);
}

Result<std::vector<std::string>> remove_entries(const std::string& directory) {
  std::vector<std::string> changed;
  PODLANE_TRY_ASSIGN(const auto names, configuration_names(directory));
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    const auto text = read_file(path);
    if (!text || text->find(kOurType) == std::string::npos) continue;
    auto list = read_list(*text);
    if (!list) continue;  // Nobody's entry can be told apart in it; it never was written by us.
    auto without = without_entry(*text);
    if (!without) return std::unexpected(std::move(without).error().with(path));
    if (*without == *text) continue;
    PODLANE_TRY(replace_file(path, *without));
    changed.push_back(path);
  }
  PODLANE_TRY_ASSIGN(const Names all, names_in(directory));
  for (const std::string& network : all.directories) {
    const std::string path = drop_in_path(directory, network);
    if (::access(path.c_str(), F_OK) != 0) continue;
    PODLANE_TRY(remove_file(path));
    ::rmdir((directory + "/" + network).c_str());  // Fails when it holds something of others, as it should.
    changed.push_back(path);
  }
  if (!changed.empty()) PODLANE_TRY(poke(directory));
  return changed;
}

}  // namespace podlane::cni
