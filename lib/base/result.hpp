// Result and Error: how every fallible podlane function reports. Any thread.
//
// Policy: what the network, a kubelet, a pod, a file or the operator can cause is an Error that is returned; what only
// our own mistake can cause is PODLANE_ASSERT (assert.hpp). "Nothing there" is a value, not an Error. Libraries return
// errors and never log them; main functions, verbs and request handlers log them once.
#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace podlane {

enum class Errc {
  kInvalid,      // Bad input: the message names the key, the value and what would be right.
  kNotFound,     // The named object does not exist.
  kExists,       // The object exists and must not, or belongs to somebody else.
  kDenied,       // Refused by policy or by the kernel's permission checks.
  kBusy,         // Held by a live owner; may be free later.
  kUnavailable,  // A peer cannot answer now; trying again later may work.
  kUnsupported,  // This kernel, device or build cannot do it.
  kGone,         // The object went away while in use.
  kProtocol,     // A peer broke the protocol.
  kIo,           // A system call failed for another reason.
};

std::string_view to_string(Errc code);

class [[nodiscard]] Error {
 public:
  Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

  // From errno: "operation: detail: strerror (ENAME)"; the code is derived from the errno.
  static Error from_errno(int errno_value, std::string_view operation, std::string_view detail = {});

  Errc code() const { return code_; }
  int errno_value() const { return errno_value_; }
  const std::string& message() const { return message_; }

  // Puts context in front: "operation object: message". Once per level that knows something new.
  Error with(std::string_view operation, std::string_view object = {}) &&;
  Error as(Errc code) && {
    code_ = code;
    return std::move(*this);
  }

 private:
  Errc code_;
  int errno_value_ = 0;
  std::string message_;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Errc code, std::string message) {
  return std::unexpected(Error(code, std::move(message)));
}
inline std::unexpected<Error> fail_errno(std::string_view operation, std::string_view detail = {}) {
  return std::unexpected(Error::from_errno(errno, operation, detail));
}

}  // namespace podlane

#define PODLANE_CONCAT_INNER(a, b) a##b
#define PODLANE_CONCAT(a, b) PODLANE_CONCAT_INNER(a, b)

// Early return. PODLANE_TRY(call) for Result<void>; PODLANE_TRY_ASSIGN(auto x, call) takes the value.
#define PODLANE_TRY(call)                                                     \
  do {                                                                        \
    if (auto podlane_try_result = (call); !podlane_try_result) [[unlikely]] { \
      return std::unexpected(std::move(podlane_try_result).error());          \
    }                                                                         \
  } while (false)

#define PODLANE_TRY_ASSIGN(target, call) PODLANE_TRY_ASSIGN_INNER(PODLANE_CONCAT(podlane_try_, __LINE__), target, call)
#define PODLANE_TRY_ASSIGN_INNER(name, target, call)                             \
  auto name = (call);                                                            \
  if (!name) [[unlikely]] return std::unexpected(std::move(name).error());       \
  target = std::move(*name)
