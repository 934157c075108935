#include "deviceplugin/kubelet/http_endpoints.hpp"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <thread>

#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

namespace {

constexpr int kPatienceSeconds = 5;  // For a request to come, and for an answer to be read.
constexpr std::size_t kMaxRequestBytes = 16 << 10;
constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* what) const {
    Free(what);
  }
};

void reply(evhttp_request* request, int status, const char* type, const std::string& body) {
  evkeyvalq* const headers = ::evhttp_request_get_output_headers(request);
  ::evhttp_add_header(headers, "Content-Type", type);
  ::evhttp_add_header(headers, "Connection", "close");  // A probe or a scrape comes once.
  const std::unique_ptr<evbuffer, Freed<::evbuffer_free>> content(::evbuffer_new());
  ::evbuffer_add(content.get(), body.data(), body.size());
  ::evhttp_send_reply(request, status, nullptr, content.get());
}

void reply_state(evhttp_request* request, const Result<void>& state) {
  reply(request, state ? 200 : 503, kText, state ? "ok\n" : state.error().message() + "\n");
}

Result<UniqueFd> listen_on_unix(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return fail(Errc::kExists, "'" + path + "' is there and is not a socket");
    ::unlink(path.c_str());  // Of an earlier life: the run lock says that there is no other daemon.
  }
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (!socket.valid() || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return fail_errno("listen for HTTP", path);
  }
  return socket;
}

// One thread answers everything: what its handlers wait for makes the probes wait too, which is the truth.
class Endpoints final : public HttpEndpoints {
 public:
  explicit Endpoints(HttpHandlers handlers) : handlers_(std::move(handlers)) {}

  ~Endpoints() override {
    if (thread_.joinable()) {
      (void)::eventfd_write(stop_.get(), 1);
      thread_.join();
    }
    if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
  }

  Result<void> listen(const HttpAddress& address) {
    ::event_set_log_callback([](int, const char*) {});  // What it has to say is in our errors.
    stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    base_.reset(::event_base_new());
    if (!stop_.valid() || !base_) return fail_errno("make an event loop for HTTP");
    server_.reset(::evhttp_new(base_.get()));
    stop_event_.reset(::event_new(
        base_.get(), stop_.get(), EV_READ,
        [](evutil_socket_t, short, void* base) { ::event_base_loopbreak(static_cast<event_base*>(base)); },
        base_.get()));
    if (!server_ || !stop_event_ || ::event_add(stop_event_.get(), nullptr) != 0) {
      return fail(Errc::kIo, "make an HTTP server: libevent gives none");
    }
    ::evhttp_set_timeout(server_.get(), kPatienceSeconds);
    ::evhttp_set_max_headers_size(server_.get(), kMaxRequestBytes);
    ::evhttp_set_max_body_size(server_.get(), kMaxRequestBytes);
    ::evhttp_set_allowed_methods(server_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    add("/healthz", [](evhttp_request* request, void* self) { reply_state(request, handlers_of(self).healthy()); });
    add("/readyz", [](evhttp_request* request, void* self) { reply_state(request, handlers_of(self).ready()); });
    add("/metrics",
        [](evhttp_request* request, void* self) { reply(request, 200, kMetricsText, handlers_of(self).metrics()); });
    PODLANE_TRY(address.kind == HttpAddress::Kind::kUnix ? take_unix(address.host) : take_tcp(address));
    thread_ = std::thread([this] { ::event_base_dispatch(base_.get()); });
    return {};
  }

  int port() const override { return port_; }

 private:
  static const HttpHandlers& handlers_of(void* self) { return static_cast<Endpoints*>(self)->handlers_; }
  void add(const char* path, void (*answer)(evhttp_request*, void*)) {
    ::evhttp_set_cb(server_.get(), path, answer, this);
  }
  Result<void> take_unix(const std::string& path) {
    PODLANE_TRY_ASSIGN(UniqueFd socket, listen_on_unix(path));
    unix_path_ = path;
    if (::evhttp_accept_socket(server_.get(), socket.get()) != 0) return fail_errno("serve HTTP", path);
    (void)socket.release();  // The server closes it.
    return {};
  }
  Result<void> take_tcp(const HttpAddress& address) {
    errno = 0;
    evhttp_bound_socket* const bound =
        ::evhttp_bind_socket_with_handle(server_.get(), address.host.c_str(), static_cast<ev_uint16_t>(address.port));
    if (bound == nullptr) return fail_errno("listen for HTTP", address.host + ":" + std::to_string(address.port));
    sockaddr_storage at{};
    socklen_t length = sizeof(at);
    if (::getsockname(::evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&at), &length) != 0) {
      return fail_errno("read the port of HTTP");
    }
    port_ = ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(at).sin_port);
    return {};
  }

  const HttpHandlers handlers_;
  std::string unix_path_;
  int port_ = 0;
  UniqueFd stop_;
  // Freed from the last to the first: each uses the one before it.
  std::unique_ptr<event_base, Freed<::event_base_free>> base_;
  std::unique_ptr<event, Freed<::event_free>> stop_event_;
  std::unique_ptr<evhttp, Freed<::evhttp_free>> server_;
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
