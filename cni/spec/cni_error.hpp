// CniError: an error as CNI prints it, with its code. Values; any thread.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane::cni {

// Codes 1 to 99 are CNI's (spec 1.1, "Error"), 100 and above are ours (docs/cni.md).
enum class CniCode : int {
  kIncompatibleVersion = 1,
  kUnsupportedField = 2,
  kUnknownContainer = 3,
  kInvalidEnvironment = 4,
  kIo = 5,
  kDecoding = 6,
  kInvalidConfig = 7,
  kInvalidNetns = 8,
  kTryAgainLater = 11,
  kNotAvailable = 50,
  kNoLane = 100,
  kGone = 101,
  kRefused = 102,
  kProtocol = 103,
  kInternal = 104,
  kIpam = 105,
  kDiffers = 106,
  kExists = 107,
};

struct CniError {
  int code = static_cast<int>(CniCode::kInternal);
  std::string message;

  CniError(CniCode value, std::string text) : code(static_cast<int>(value)), message(std::move(text)) {}
  CniError(int value, std::string text) : code(value), message(std::move(text)) {}
  // From a kernel or file operation; what an operator typed is given its code where it is read. Implicit, so that
  // PODLANE_TRY lifts library errors into the verbs.
  CniError(const Error& error);  // NOLINT(google-explicit-constructor)
};

template <typename T>
using CniResult = std::expected<T, CniError>;

inline std::unexpected<CniError> fail(CniCode code, std::string message) {
  return std::unexpected(CniError(code, std::move(message)));
}

// Gives a library's error another code than the one its kind would have.
inline std::unexpected<CniError> fail(CniCode code, const Error& error) {
  return std::unexpected(CniError(code, error.message()));
}

// The JSON document for standard output.
std::string to_json(const CniError& error, std::string_view cni_version);

}  // namespace podlane::cni
