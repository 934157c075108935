// ControlServer: the control socket (docs/control-protocol.md). One connection carries one request; requests are answered
// on workers, so that a slow one holds up no other. Only root reaches the socket.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "deviceplugin/lanes/executors.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/control_msg.hpp"

namespace podlane::dp {

class ControlServer {
 public:
  // Nobody waits for the answer any more: the client closed its connection, at its deadline or because it was killed.
  using IsAbandoned = std::function<bool()>;
  // Called on a worker.
  using Handler = std::function<lane::ControlAnswer(const lane::ControlRequest&, std::vector<UniqueFd> fds,
                                                    const IsAbandoned& is_abandoned)>;

  // Listens at path (mode 0600). BlockingWorkers must outlive the server; requests taken before its end are still answered.
  static Result<std::unique_ptr<ControlServer>> start(const std::string& path, BlockingWorkers& workers, Handler handler);
  ~ControlServer();  // Stops listening and removes the socket file.
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(std::string path, UniqueFd listener, UniqueFd stop, BlockingWorkers& workers, Handler handler);
  void accept_loop();

  const std::string path_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  BlockingWorkers& workers_;
  const std::shared_ptr<const Handler> handler_;  // Shared with requests that outlive the server.
  std::thread thread_;
};

}  // namespace podlane::dp
