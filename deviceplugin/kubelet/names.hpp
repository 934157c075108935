// Names that the kubelet's device plugin API fixes, and ours in it.
#pragma once

#include <string>
#include <string_view>

namespace podlane::dp {

inline constexpr std::string_view kResourcePrefix = "podlane.io/";
inline constexpr const char* kApiVersion = "v1beta1";
inline constexpr const char* kHealthy = "Healthy";
inline constexpr const char* kUnhealthy = "Unhealthy";
inline constexpr const char* kKubeletSocket = "kubelet.sock";

inline std::string socket_name(const std::string& pool) {
  return "podlane-" + pool + ".sock";
}
inline std::string plugin_dir(const std::string& kubelet_dir) {
  return kubelet_dir + "/device-plugins";
}

}  // namespace podlane::dp
