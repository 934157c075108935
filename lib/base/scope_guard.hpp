// ScopeGuard: undo for one step that has succeeded. Released on the line that publishes the result, never tied to an
// error variable. Guards unwind in reverse order of their construction.
#pragma once

#include <utility>

namespace podlane {

template <typename Undo>
class [[nodiscard]] ScopeGuard {
 public:
  explicit ScopeGuard(Undo undo) : undo_(std::move(undo)) {}
  ScopeGuard(ScopeGuard&& other) noexcept : undo_(std::move(other.undo_)), armed_(std::exchange(other.armed_, false)) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ScopeGuard& operator=(ScopeGuard&&) = delete;
  ~ScopeGuard() {
    if (armed_) undo_();
  }
  void release() noexcept { armed_ = false; }

 private:
  Undo undo_;
  bool armed_ = true;
};

}  // namespace podlane
