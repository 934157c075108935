#include "cni/install/installer.hpp"

#include <unistd.h>

#include <algorithm>

#include "cni/install/binary.hpp"
#include "cni/install/conf_dir.hpp"
#include "lib/base/file.hpp"
#include "lib/base/seqpacket.hpp"

namespace podlane::cni {

using namespace std::chrono_literals;

namespace {

constexpr auto kLongestPause = 30s;

bool device_plugin_answers(const std::string& run_dir) {
  return seqpacket_connect(run_dir + "/control.sock", 500ms).has_value();
}

// Who writes the list, by its name, and what makes him leave ours in.
std::string advice(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.find("cilium") != std::string::npos) return "; it looks like Cilium's: set its value cni.exclusive to false";
  if (name.find("multus") != std::string::npos) {
    return "; it looks like Multus's: use podlane by a NetworkAttachmentDefinition and set cni.install to none";
  }
  return "; its owner must leave entries of others alone, or podlane must be told of its template";
}

InstallReport report(InstallState state, std::string message, std::string file = {}) {
  return {.state = state, .message = std::move(message), .file = std::move(file)};
}

}  // namespace

std::string_view to_string(InstallState state) {
  switch (state) {
    case InstallState::kStarting: return "starting";
    case InstallState::kWaiting: return "waiting";
    case InstallState::kInstalled: return "installed";
    case InstallState::kLost: return "lost";
    case InstallState::kConflict: return "conflict";
    case InstallState::kRefused: return "refused";
    case InstallState::kUninstalled: return "uninstalled";
  }
  return "?";
}

InstallReport Installer::step() {
  auto result = look();
  if (!result) return report(InstallState::kRefused, result.error().message());
  return std::move(*result);
}

Result<InstallReport> Installer::look() {
  PODLANE_TRY(install_binary(options_.source, options_.bin_dir));
  if (options_.method == Method::kNone) {
    return report(InstallState::kInstalled, "the binary is there; no list is edited");
  }
  PODLANE_TRY_ASSIGN(const auto first, first_list(options_.conf_dir));
  if (!first) {
    return report(InstallState::kWaiting,
                  options_.conf_dir + " holds no list yet; the cluster's network must write one");
  }
  bool in_force = false;
  std::string file = first->path;
  if (options_.method == Method::kEdit) {
    in_force = holds_entry(first->text, first->list, options_.entry);
  } else {
    file = drop_in_path(options_.conf_dir, first->list.name);
    const auto there = read_file(file);
    // An entry in the list itself would run us twice.
    PODLANE_TRY_ASSIGN(const std::string without, without_entry(first->text));
    in_force = there && *there == options_.entry + "\n" && without == first->text;
  }
  if (in_force) {
    was_in_force_ = true;
    lost_ = false;
    if (conflict_ && clock_() - *not_before_ >= kConflictWindow) {  // It stayed that long: the owner gave in.
      conflict_ = false;
      losses_.clear();
    }
    return report(InstallState::kInstalled, "in force", file);
  }
  InstallReport waiting;
  if (back_off(file, waiting)) return waiting;
  // An entry of ours that only has other words is in force already; the device plugin need not be asked.
  if (!was_in_force_ && !device_plugin_answers(options_.run_dir)) {
    return report(InstallState::kWaiting,
                  "the device plugin does not answer at " + options_.run_dir + "/control.sock yet", file);
  }
  return put_in(first->path, first->list.name, first->text, first->list.only_inlined);
}

Result<InstallReport> Installer::put_in(const std::string& list_path, const std::string& network,
                                        const std::string& text, bool only_inlined) {
  std::string file = list_path;
  if (options_.method == Method::kEdit) {
    PODLANE_TRY_ASSIGN(const std::string edited, with_entry(text, options_.entry));
    // A drop-in of an earlier method would run us twice.
    PODLANE_TRY(remove_file(drop_in_path(options_.conf_dir, network)));
    PODLANE_TRY(replace_file(list_path, edited));
  } else {
    if (only_inlined) {
      return report(InstallState::kRefused,
                    list_path + " has loadOnlyInlinedPlugins, so that no drop-in is read; set cni.install to edit",
                    list_path);
    }
    file = drop_in_path(options_.conf_dir, network);
    PODLANE_TRY_ASSIGN(const std::string without, without_entry(text));
    PODLANE_TRY(make_directories(options_.conf_dir + "/" + network));
    PODLANE_TRY(write_file_atomic(file, options_.entry + "\n", Durability::kDisk, 0600));
    if (without != text) PODLANE_TRY(replace_file(list_path, without));
    PODLANE_TRY(poke(options_.conf_dir));
  }
  // As the runtime reads it now.
  PODLANE_TRY_ASSIGN(const auto first, first_list(options_.conf_dir));
  const bool there = first && first->path == list_path &&
                     (options_.method == Method::kDropIn || holds_entry(first->text, first->list, options_.entry));
  was_in_force_ = true;
  if (!there) return report(InstallState::kLost, list_path + " changed while it was edited", list_path);
  lost_ = false;
  return report(InstallState::kInstalled, "put in", file);
}

void Installer::count_loss(MonotonicTime now) {
  losses_.push_back(now);
  while (now - losses_.front() > kConflictWindow) losses_.pop_front();
  const auto count = static_cast<int>(losses_.size());
  conflict_ = conflict_ || count >= kConflictLosses;
  not_before_ = conflict_ ? now + kConflictWindow : now + std::chrono::seconds(1 << (count - 1));
}

// True: not now. The first step that sees a loss counts it.
bool Installer::back_off(const std::string& path, InstallReport& waiting) {
  if (!was_in_force_) return false;
  const MonotonicTime now = clock_();
  if (!lost_) {
    lost_ = true;
    count_loss(now);
  }
  if (!not_before_ || now >= *not_before_) return false;
  waiting = report(conflict_ ? InstallState::kConflict : InstallState::kLost,
                   conflict_ ? path + " is rewritten without podlane's entry again and again" + advice(path)
                             : path + " was rewritten without podlane's entry; it is put back soon",
                   path);
  return true;
}

std::chrono::milliseconds Installer::next_step_in() const {
  std::chrono::milliseconds pause = kLongestPause;
  // Until something is in force there may be nothing that sends an event: a socket, say.
  if (!was_in_force_) pause = 1s;
  if (lost_ && not_before_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*not_before_ - clock_()) + 1ms;
    pause = std::clamp(left, std::chrono::milliseconds(1), pause);
  }
  return pause;
}

InstallReport Installer::uninstall() {
  auto changed = remove_entries(options_.conf_dir);
  if (!changed && changed.error().code() != Errc::kNotFound) {
    return report(InstallState::kRefused, changed.error().message());
  }
  const auto cached = cached_pods(options_.cache_dir);
  if (!cached) return report(InstallState::kRefused, cached.error().message());
  const std::string binary = options_.bin_dir + "/" + options_.source.substr(options_.source.rfind('/') + 1);
  if (*cached > 0) {
    return report(InstallState::kUninstalled, "no list names podlane any more; " + binary + " stays for the DEL of " +
                                                  std::to_string(*cached) + " pods that were made with it");
  }
  if (auto removed = remove_file(binary); !removed) return report(InstallState::kRefused, removed.error().message());
  return report(InstallState::kUninstalled, "no list names podlane any more, the binary is gone");
}

}  // namespace podlane::cni
