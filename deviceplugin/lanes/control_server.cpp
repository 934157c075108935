#include "deviceplugin/lanes/control_server.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>

#include "lib/base/file.hpp"
#include "lib/base/seqpacket.hpp"

namespace podlane::dp {

namespace {

constexpr auto kMessageTimeout = std::chrono::seconds(5);  // For a request that was begun, and for its answer.
constexpr std::size_t kMaxFds = 1;

lane::ControlAnswer refusal(lane::ControlCode code, std::string message) {
  return {.refusal = lane::ControlRefusal{code, std::move(message)}};
}

// Not when the client only ended its sending (that would be POLLRDHUP).
bool is_closed_by_client(int socket) {
  pollfd entry{.fd = socket, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0;
}

void answer_connection(int socket, const ControlServer::Handler& handler) {
  lane::ControlAnswer answer;
  auto message = seqpacket_receive(socket, lane::kControlMessageMaxBytes, kMaxFds, kMessageTimeout);
  if (!message) {
    answer = refusal(lane::ControlCode::kProtocol, message.error().message());
  } else if (message->text.empty()) {
    return;  // Connected and went: somebody's probe.
  } else if (const auto request = lane::decode_control_request(message->text); !request) {
    answer = refusal(lane::ControlCode::kProtocol, request.error().message());
  } else {
    answer = handler(*request, std::move(message->fds), [socket] { return is_closed_by_client(socket); });
  }
  // A client that went away learns nothing; what was carried out for it, its DEL undoes.
  (void)seqpacket_send(socket, lane::encode(answer), {}, kMessageTimeout);
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& path, BlockingWorkers& workers, Handler handler) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return fail_errno("eventfd");
  PODLANE_TRY_ASSIGN(UniqueFd listener, seqpacket_listen(path, 0600, 512));
  return std::unique_ptr<ControlServer>(
      new ControlServer(path, std::move(listener), std::move(stop), workers, std::move(handler)));
}

ControlServer::ControlServer(std::string path, UniqueFd listener, UniqueFd stop, BlockingWorkers& workers, Handler handler)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      workers_(workers),
      handler_(std::make_shared<const Handler>(std::move(handler))),
      thread_([this] { accept_loop(); }) {
  ::pthread_setname_np(thread_.native_handle(), "control");
}

ControlServer::~ControlServer() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
  (void)remove_file(path_);
}

void ControlServer::accept_loop() {
  for (;;) {
    pollfd fds[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    if (fds[1].revents == 0) continue;
    auto socket = std::make_shared<UniqueFd>(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket->valid()) {
      // Out of descriptors: the connection stays in the backlog. Wait a little instead of spinning on it.
      if (errno == EMFILE || errno == ENFILE) ::poll(fds, 1, 100);
      continue;
    }
    const bool taken = workers_.post([socket, handler = handler_] { answer_connection(socket->get(), *handler); });
    if (!taken) {
      const auto full = refusal(lane::ControlCode::kNotReady, "too many requests wait already: try again");
      (void)seqpacket_send(socket->get(), lane::encode(full), {}, std::chrono::milliseconds(100));
    }
  }
}

}  // namespace podlane::dp
