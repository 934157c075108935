// One message with its descriptors over an AF_UNIX SOCK_SEQPACKET socket. Blocking within the timeout; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane {

struct SeqpacketMessage {
  std::string text;  // Empty and no fds: the peer has closed.
  std::vector<UniqueFd> fds;
};

Result<UniqueFd> seqpacket_connect(const std::string& path, std::chrono::milliseconds timeout);
// Binds to a temporary name and renames it over path, so that a client never meets a socket nobody listens on.
Result<UniqueFd> seqpacket_listen(const std::string& path, mode_t mode, int backlog = 128);

Result<void> seqpacket_send(int socket, std::string_view text, const std::vector<int>& fds,
                            std::chrono::milliseconds timeout);
// kProtocol when the message or its descriptors do not fit; descriptors that came are closed then.
Result<SeqpacketMessage> seqpacket_receive(int socket, std::size_t max_bytes, std::size_t max_fds,
                                           std::chrono::milliseconds timeout);

}  // namespace podlane
