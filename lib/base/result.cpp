#include "lib/base/result.hpp"

#include <cstring>

namespace podlane {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::kInvalid: return "invalid";
    case Errc::kNotFound: return "not-found";
    case Errc::kExists: return "exists";
    case Errc::kDenied: return "denied";
    case Errc::kBusy: return "busy";
    case Errc::kUnavailable: return "unavailable";
    case Errc::kUnsupported: return "unsupported";
    case Errc::kGone: return "gone";
    case Errc::kProtocol: return "protocol";
    case Errc::kIo: return "io";
  }
  return "io";
}

namespace {

Errc code_of_errno(int errno_value) {
  switch (errno_value) {
    case EINVAL:
    case ENAMETOOLONG:
    case E2BIG: return Errc::kInvalid;
    case ENOENT:
    case ENODEV:
    case ESRCH:
    case ENXIO: return Errc::kNotFound;
    case EEXIST: return Errc::kExists;
    case EPERM:
    case EACCES: return Errc::kDenied;
    case EBUSY: return Errc::kBusy;
    case EAGAIN:
    case ECONNREFUSED:
    case ETIMEDOUT: return Errc::kUnavailable;
    case EOPNOTSUPP:
    case ENOSYS: return Errc::kUnsupported;
    case ENETDOWN:
    case ECONNRESET:
    case EPIPE: return Errc::kGone;
    default: return Errc::kIo;
  }
}

}  // namespace

Error Error::from_errno(int errno_value, std::string_view operation, std::string_view detail) {
  std::string text(operation);
  if (!detail.empty()) text.append(": ").append(detail);
  text.append(": ").append(::strerror(errno_value));
  if (const char* name = ::strerrorname_np(errno_value)) text.append(" (").append(name).append(")");
  Error error(code_of_errno(errno_value), std::move(text));
  error.errno_value_ = errno_value;
  return error;
}

Error Error::with(std::string_view operation, std::string_view object) && {
  std::string text(operation);
  if (!object.empty()) text.append(" ").append(object);
  message_ = text.append(": ").append(message_);
  return std::move(*this);
}

}  // namespace podlane
