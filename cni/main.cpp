// podlane, the CNI plugin: environment and standard input in, one JSON document out. The only file of cni/ that touches
// the standard streams.
#include <unistd.h>

#include <cstdlib>

#include "cni/plugin/dispatch.hpp"
#include "cni/spec/version.hpp"
#include "lib/base/file.hpp"

namespace {

constexpr std::size_t kMaxInputBytes = 1 << 20;

std::optional<std::string> read_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return {};
  return std::string(value);
}

int print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return 1;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

int main() {
  using podlane::cni::CniCode;
  using podlane::cni::CniError;
  const auto input = podlane::read_fd(STDIN_FILENO, kMaxInputBytes, "standard input");
  if (!input) {
    const CniCode code = input.error().code() == podlane::Errc::kInvalid ? CniCode::kDecoding : CniCode::kIo;
    print(to_json(CniError(code, input.error().message()), podlane::cni::kNewestVersion));
    return 1;
  }
  const auto outcome = podlane::cni::dispatch(read_environment, *input, STDERR_FILENO);
  if (outcome.output.empty()) return outcome.exit_status;
  return print(outcome.output + "\n") == 0 ? outcome.exit_status : 1;
}
