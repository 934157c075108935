// The kubelet's device manager: takes registrations, keeps the plugins' device lists, allocates devices to containers.
// Behaves as kubelet 1.36 was seen to (shared/cases/README.md). Any thread; allocations one at a time, as in the
// kubelet.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deviceplugin.grpc.pb.h"
#include "lib/base/log.hpp"
#include "lib/base/result.hpp"

namespace podlane::testkubelet {

// What one container got of one resource.
struct Allocation {
  std::string resource;
  std::vector<std::string> device_ids;
  v1beta1::ContainerAllocateResponse answer;
};

struct ResourceStatus {
  std::string resource, endpoint;
  bool connected = false;
  std::size_t capacity = 0, allocatable = 0, allocated = 0;
  std::uint64_t registrations = 0, lists = 0;                // Since start, over all registrations.
  std::vector<std::pair<std::string, std::string>> devices;  // (id, health)
};

class DeviceManager {
 public:
  // directory: <kubelet-dir>/device-plugins; made when missing.
  DeviceManager(std::string directory, Log& log);
  ~DeviceManager();

  // Removes every socket in the directory and serves Registration on kubelet.sock.
  Result<void> start();
  // The kubelet ends: streams are cancelled, its socket file stays, as after a killed process.
  void stop();

  Result<Allocation> allocate(const std::string& resource, int count);
  void release(const Allocation& allocation);
  Result<void> pre_start(const Allocation& allocation);

  std::vector<ResourceStatus> status() const;

 private:
  struct Endpoint;
  class Service;
  friend class Service;

  grpc::Status register_plugin(const v1beta1::RegisterRequest& request);
  std::shared_ptr<Endpoint> endpoint(const std::string& resource) const;
  Result<std::vector<std::string>> choose(Endpoint& endpoint, int count);

  const std::string directory_;
  Log& log_;
  std::mutex allocate_mutex_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Endpoint>> endpoints_;  // By resource.
  std::map<std::string, std::vector<std::string>> allocated_;   // By resource.
  std::map<std::string, std::uint64_t> registrations_;
  std::map<std::string, std::uint64_t> lists_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace podlane::testkubelet
