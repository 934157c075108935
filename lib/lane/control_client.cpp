#include "lib/lane/control_client.hpp"

#include "lib/base/seqpacket.hpp"

namespace podlane::lane {

namespace {

Result<ControlAnswer> exchange(int socket, const std::string& request, int netns_fd,
                               std::chrono::milliseconds timeout) {
  std::vector<int> fds;
  if (netns_fd >= 0) fds.push_back(netns_fd);
  PODLANE_TRY(seqpacket_send(socket, request, fds, timeout));
  PODLANE_TRY_ASSIGN(const SeqpacketMessage received, seqpacket_receive(socket, kControlMessageMaxBytes, 0, timeout));
  if (received.text.empty()) return fail(Errc::kGone, "connection closed before the answer");
  return decode_control_answer(received.text);
}

}  // namespace

Result<ControlAnswer> control_call(const std::string& socket_path, const ControlRequest& request, int netns_fd,
                                   std::chrono::milliseconds timeout) {
  const std::string text = encode(request);
  if (text.size() > kControlMessageMaxBytes) {
    return fail(Errc::kInvalid, "request of " + std::to_string(text.size()) + " bytes is longer than " +
                                    std::to_string(kControlMessageMaxBytes));
  }
  auto socket = seqpacket_connect(socket_path, timeout);
  if (!socket) return std::unexpected(std::move(socket).error().as(Errc::kUnavailable));
  auto answer = exchange(socket->get(), text, netns_fd, timeout);
  if (!answer) {
    const Errc code = answer.error().code() == Errc::kUnavailable ? Errc::kIo : answer.error().code();
    return std::unexpected(std::move(answer).error().as(code).with("device plugin at", socket_path));
  }
  return answer;
}

}  // namespace podlane::lane
