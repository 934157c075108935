#include "cni/spec/cni_error.hpp"

#include "lib/json/json.hpp"

namespace podlane::cni {

namespace {

CniCode code_of(Errc code) {
  switch (code) {
    case Errc::kUnavailable:
    case Errc::kBusy: return CniCode::kTryAgainLater;
    case Errc::kExists: return CniCode::kExists;
    case Errc::kProtocol: return CniCode::kProtocol;
    case Errc::kInvalid:
    case Errc::kNotFound:
    case Errc::kDenied:
    case Errc::kUnsupported:
    case Errc::kGone:
    case Errc::kIo: return CniCode::kInternal;
  }
  return CniCode::kInternal;
}

}  // namespace

CniError::CniError(const Error& error) : CniError(code_of(error.code()), error.message()) {}

std::string to_json(const CniError& error, std::string_view cni_version) {
  return json::dump({{"cniVersion", cni_version}, {"code", error.code}, {"msg", error.message}, {"details", ""}});
}

}  // namespace podlane::cni
