#include "cni/install/binary.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include "cni/install/conflist.hpp"
#include "lib/base/file.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/json/json.hpp"

namespace podlane::cni {

namespace {

constexpr std::size_t kMaxBinaryBytes = 64 << 20;

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t six = kAlphabet.find(c);
    if (six == std::string_view::npos) break;  // Padding.
    bits = bits << 6 | static_cast<unsigned>(six);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result += static_cast<char>(bits >> count & 0xff);
  }
  return result;
}

bool made_with_us(const std::string& cached) {
  const auto record = json::parse(cached);
  if (!record || !record->is_object()) return false;
  const auto config = record->find("config");
  if (config == record->end() || !config->is_string()) return false;
  const auto list = read_list(decode_base64(config->get<std::string>()));
  if (!list) return false;
  for (const PluginText& plugin : list->plugins) {
    if (plugin.type == kOurType) return true;
  }
  return false;
}

}  // namespace

Result<BinaryState> install_binary(const std::string& source, const std::string& directory) {
  const std::string target = directory + "/" + source.substr(source.rfind('/') + 1);
  PODLANE_TRY_ASSIGN(const std::string bytes, read_file(source, kMaxBinaryBytes));
  const auto there = read_file(target, kMaxBinaryBytes);
  struct stat facts {};
  if (there && *there == bytes && ::stat(target.c_str(), &facts) == 0 && (facts.st_mode & 07777) == 0755) {
    return BinaryState::kCurrent;
  }
  PODLANE_TRY(make_directories(directory));
  // The mode is set before the file has its name: umask must not leave a plugin that cannot be run.
  const mode_t before = ::umask(0);
  const ScopeGuard restore([&] { ::umask(before); });
  PODLANE_TRY(write_file_atomic(target, bytes, Durability::kDisk, 0755));
  return BinaryState::kInstalled;
}

Result<int> cached_pods(const std::string& cache_dir) {
  const std::string directory = cache_dir + "/results";
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr && errno == ENOENT) return 0;
  if (stream == nullptr) return fail_errno("open directory", directory);
  const ScopeGuard close([&] { ::closedir(stream); });
  int count = 0;
  while (const dirent* entry = ::readdir(stream)) {
    const auto text = read_file(directory + "/" + entry->d_name);
    if (text && made_with_us(*text)) ++count;
  }
  return count;
}

}  // namespace podlane::cni
