// The reader's side of a snapshot: a tar as tar_of() writes it, or as tar(1) would of the unpacked tree.
#include <algorithm>
#include <optional>

#include "nodeconfig/snapshot.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr std::size_t kBlock = 512;

std::string_view text_at(std::string_view header, std::size_t at, std::size_t size) {
  const std::string_view field = header.substr(at, size);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

std::optional<std::uint64_t> octal_at(std::string_view header, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (const char c : text_at(header, at, size)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7' || value > (std::uint64_t{1} << 40)) return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

bool has_its_sum(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return octal_at(header, 148, 8) == sum;
}

// "sys/./class/../x" -> "/sys/x", as seen from `base`. Empty: it leads out of the tree.
std::string absolute(std::string base, std::string_view name) {
  if (name.starts_with('/')) base.clear();
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      base.append("/").append(part);
      continue;
    }
    if (base.empty()) return {};
    base.erase(base.rfind('/'));
  }
  return base;
}

}  // namespace

Result<Recording> recording_of(std::string_view tar) {
  Recording recording;
  std::string long_name, long_link;
  bool any = false;
  while (tar.size() >= kBlock && tar[0] != '\0') {
    const std::string_view header = tar.substr(0, kBlock);
    const auto size = octal_at(header, 124, 12), mode = octal_at(header, 100, 8);
    if (!has_its_sum(header) || !size || !mode) return fail(Errc::kInvalid, "snapshot: a header is damaged");
    const std::size_t blocks = (*size + kBlock - 1) / kBlock;
    if (blocks > tar.size() / kBlock - 1) return fail(Errc::kInvalid, "snapshot: it is cut off");
    const std::string_view content = tar.substr(kBlock, *size);
    tar.remove_prefix(kBlock * (1 + blocks));
    any = true;
    const char type = header[156];
    if (type == 'L' || type == 'K') {
      (type == 'L' ? long_name : long_link) = text_at(content, 0, content.size());
      continue;
    }
    const std::string name = long_name.empty() ? std::string(text_at(header, 0, 100)) : std::move(long_name);
    const std::string link = long_link.empty() ? std::string(text_at(header, 157, 100)) : std::move(long_link);
    long_name.clear();
    long_link.clear();
    const std::string path = absolute("", name);
    if (path.empty()) {
      if (name == "./" || name == ".") continue;  // The root itself.
      return fail(Errc::kInvalid, "snapshot: an entry leads out of it");
    }
    const auto bits = static_cast<mode_t>(*mode & 07777);
    if (type == '0' || type == '\0') recording.files[path] = {.text = std::string(content), .mode = bits};
    if (type == '5') recording.directories[path] = bits;
    if (type != '2') continue;
    std::string target = absolute(path.substr(0, path.rfind('/')), link);
    if (target.empty()) return fail(Errc::kInvalid, "snapshot: a link leads out of it");
    recording.links[path] = std::move(target);
  }
  if (!any) return fail(Errc::kInvalid, "snapshot: this is no tar");
  return recording;
}

}  // namespace podlane::nodeconfig
