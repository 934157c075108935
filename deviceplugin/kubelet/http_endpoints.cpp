#include "deviceplugin/kubelet/http_endpoints.hpp"

#include <httplib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <thread>

namespace podlane::dp {

namespace {

// Two readers at a time (a probe and a scrape) are all that is wanted of this port; others wait.
constexpr std::size_t kThreads = 2;
constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMaxRequestBytes = 16 << 10;
constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

class Endpoints final : public HttpEndpoints {
 public:
  explicit Endpoints(HttpHandlers handlers) : handlers_(std::move(handlers)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    // httplib's own choice is SO_REUSEPORT: two daemons would share the port, and neither would know.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_keep_alive_max_count(1);  // An idle keep-alive connection would hold one of the two threads.
    server_.set_payload_max_length(kMaxRequestBytes);
    const auto answer = [](const Result<void>& state, httplib::Response& response) {
      response.status = state ? 200 : 503;
      response.set_content(state ? "ok\n" : state.error().message() + "\n", kText);
    };
    server_.Get("/healthz", [this, answer](const httplib::Request&, httplib::Response& response) {
      answer(handlers_.healthy(), response);
    });
    server_.Get("/readyz", [this, answer](const httplib::Request&, httplib::Response& response) {
      answer(handlers_.ready(), response);
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(handlers_.metrics(), kMetricsText);
    });
  }

  ~Endpoints() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
    if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
  }

  Result<void> listen(const HttpAddress& address) {
    if (address.kind == HttpAddress::Kind::kUnix) {
      struct stat info {};
      if (::lstat(address.host.c_str(), &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) return fail(Errc::kExists, "'" + address.host + "' is there and is not a socket");
        ::unlink(address.host.c_str());  // Of an earlier life: the run lock says that there is no other daemon.
      }
      server_.set_address_family(AF_UNIX);
      errno = 0;
      if (!server_.bind_to_port(address.host, 80)) return fail_errno("listen for HTTP", address.host);
      unix_path_ = address.host;
    } else if (address.port == 0) {
      port_ = server_.bind_to_any_port(address.host);
      if (port_ <= 0) return fail(Errc::kIo, "listen for HTTP on " + address.host + ": no free port");
    } else {
      errno = 0;
      if (!server_.bind_to_port(address.host, address.port)) {
        return fail_errno("listen for HTTP", address.host + ":" + std::to_string(address.port));
      }
      port_ = address.port;
    }
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // stop() before the loop runs would be lost (httplib 0.11: it acts on a running server only).
    while (!server_.is_running() && !ended_) std::this_thread::yield();
    return {};
  }

  int port() const override { return port_; }

 private:
  const HttpHandlers handlers_;
  httplib::Server server_;
  std::string unix_path_;
  int port_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace

Result<HttpAddress> parse_http_address(const std::string& text) {
  const auto wrong = [&] {
    return fail(Errc::kInvalid,
                "--http '" + text + "' is not off, ADDRESS:PORT (port 0 to 65535; IPv6 in brackets) or unix:/PATH");
  };
  if (text == "off") return HttpAddress{};
  if (text.starts_with("unix:")) {
    const std::string path = text.substr(5);
    if (!path.starts_with('/') || path.size() >= sizeof(sockaddr_un::sun_path)) return wrong();
    return HttpAddress{.kind = HttpAddress::Kind::kUnix, .host = path, .port = 0};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return wrong();
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return wrong();
  }
  int port = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (host.empty() || parsed.ec != std::errc{} || parsed.ptr != end || port < 0 || port > 65535) return wrong();
  return HttpAddress{.kind = HttpAddress::Kind::kTcp, .host = host, .port = port};
}

Result<std::unique_ptr<HttpEndpoints>> HttpEndpoints::start(const HttpAddress& address, HttpHandlers handlers) {
  auto endpoints = std::make_unique<Endpoints>(std::move(handlers));
  if (address.kind != HttpAddress::Kind::kOff) PODLANE_TRY(endpoints->listen(address));
  return endpoints;
}

}  // namespace podlane::dp
