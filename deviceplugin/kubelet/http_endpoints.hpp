// HttpEndpoints: /healthz, /readyz and /metrics. Plain HTTP, read-only; meant for 127.0.0.1, a node address of the
// operator's choice, or a unix socket.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/result.hpp"

namespace podlane::dp {

struct HttpAddress {
  enum class Kind { kOff, kTcp, kUnix } kind = Kind::kOff;
  std::string host;  // Or the path of the unix socket.
  int port = 0;
};
// "off", "unix:/path", "127.0.0.1:9470", "[::1]:9470"; port 0 takes a free one.
Result<HttpAddress> parse_http_address(const std::string& text);

struct HttpHandlers {  // Called on the server's threads.
  std::function<Result<void>()> healthy;
  std::function<Result<void>()> ready;
  std::function<std::string()> metrics;
};

class HttpEndpoints {
 public:
  static Result<std::unique_ptr<HttpEndpoints>> start(const HttpAddress& address, HttpHandlers handlers);
  virtual ~HttpEndpoints() = default;  // Stops and removes its unix socket.
  virtual int port() const = 0;        // TCP only; the real one where 0 was asked for.
};

}  // namespace podlane::dp
