// DeviceClaims: one operation at a time on a device. Operations on a lane take several steps with blocking work between
// them; two of them on one lane must not interleave. Claims are taken for all devices of an operation at once, so they
// cannot dead-lock. Any thread but the state thread, which never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::dp {

class DeviceClaims {
 public:
  class Claim {
   public:
    Claim(DeviceClaims& owner, std::vector<std::string> devices) : owner_(&owner), devices_(std::move(devices)) {}
    Claim(Claim&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), devices_(std::move(other.devices_)) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (owner_ != nullptr) owner_->give_back(devices_);
    }

   private:
    DeviceClaims* owner_;
    std::vector<std::string> devices_;
  };

  // kUnavailable when another operation holds one of them for longer than `wait`.
  Result<Claim> claim(const std::vector<std::string>& devices, std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    const auto all_free = [&] {
      for (const std::string& device : devices) {
        if (held_.contains(device)) return false;
      }
      return true;
    };
    if (!changed_.wait_for(lock, wait, all_free)) {
      return fail(Errc::kUnavailable, "another operation on " + devices.front() + " takes too long: try again");
    }
    held_.insert(devices.begin(), devices.end());
    return Claim(*this, devices);
  }

 private:
  void give_back(const std::vector<std::string>& devices) {
    const std::lock_guard lock(mutex_);
    for (const std::string& device : devices) held_.erase(device);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> held_;
};

}  // namespace podlane::dp
