#include "lib/lane/handover_client.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/seqpacket.hpp"

// One attempt is a straight line: connect, hello, offer, umem or ready, lane, ack. What may pass by itself ends the
// attempt as kUnavailable and request_lane tries again; everything else ends the request.

namespace podlane::lane {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseMin{10};
constexpr milliseconds kPauseMax{500};
// A killed owner's descriptors are released within ms; "busy" for longer than this is a live owner.
constexpr milliseconds kBusyPatience{4000};

struct Received {
  HandoverMessage message;
  std::vector<UniqueFd> fds;
};

milliseconds left_until(MonotonicTime deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

// Waits for socket (or, when it is -1, just for the time to pass); false at the deadline, an error when cancelled.
Result<bool> wait_readable(int socket, int cancel_fd, MonotonicTime deadline) {
  for (;;) {
    pollfd entries[] = {{.fd = socket, .events = POLLIN, .revents = 0}, {.fd = cancel_fd, .events = POLLIN, .revents = 0}};
    const int n = ::poll(entries, 2, static_cast<int>(std::min(left_until(deadline), milliseconds(1 << 30)).count()));
    if (n < 0 && errno != EINTR) return fail_errno("poll");
    if (n > 0 && entries[1].revents != 0) return fail(Errc::kUnavailable, "given up: told to stop");
    if (n > 0) return true;
    if (n == 0) return false;
  }
}

Error error_of(const HandoverRefusal& refusal) {
  static constexpr std::pair<std::string_view, Errc> kCodes[] = {
      {"not-attached", Errc::kUnavailable}, {"busy", Errc::kBusy},         {"denied", Errc::kDenied},
      {"gone", Errc::kGone},                {"umem", Errc::kInvalid},      {"protocol", Errc::kProtocol},
      {"version", Errc::kUnsupported},      {"internal", Errc::kIo},
  };
  Errc code = Errc::kIo;
  for (const auto& [name, value] : kCodes) {
    if (name == refusal.code) code = value;
  }
  return Error(code, "the device plugin refused the lane (" + refusal.code + "): " + refusal.message);
}

class Attempt {
 public:
  Attempt(const HandoverOptions& options, MonotonicTime deadline) : options_(options), deadline_(deadline) {}

  Result<LaneGrant> run() {
    PODLANE_TRY(connect());
    PODLANE_TRY(send(Hello{.client = options_.client, .vnet_hdr = options_.vnet_hdr, .resume = false}));
    PODLANE_TRY_ASSIGN(Received received, receive("offer"));
    const Offer* offer = std::get_if<Offer>(&received.message);
    if (offer == nullptr || !received.fds.empty()) return unexpected_message("offer");
    if (offer->version != kHandoverVersion) {
      return fail(Errc::kUnsupported, "the device plugin offers hand-over version " + std::to_string(offer->version) +
                                          ", this client speaks " + std::to_string(kHandoverVersion));
    }
    LaneGrant grant;
    grant.style = offer->style;
    PODLANE_TRY(answer_offer(*offer, grant));
    PODLANE_TRY_ASSIGN(Received lane, receive("lane"));
    if (std::get_if<LaneDescription>(&lane.message) == nullptr) return unexpected_message("lane");
    grant.description = std::get<LaneDescription>(std::move(lane.message));
    PODLANE_TRY(take_fds(*offer, std::move(lane.fds), grant));
    PODLANE_TRY(send(Ack{}));
    grant.session = std::move(socket_);
    return grant;
  }

 private:
  Result<void> connect() {
    auto socket = seqpacket_connect(options_.socket_path, std::min(options_.step_timeout, left_until(deadline_)));
    if (socket) {
      socket_ = std::move(*socket);
      return {};
    }
    switch (socket.error().errno_value()) {
      case ENOENT:
      case ECONNREFUSED:
      case EAGAIN:
        return fail(Errc::kUnavailable, "nobody listens at " + options_.socket_path +
                                            ": is the device plugin running? (" + socket.error().message() + ")");
      default: return std::unexpected(std::move(socket).error());
    }
  }

  Result<void> answer_offer(const Offer& offer, LaneGrant& grant) {
    if (!offer.umem) return send(Ready{});
    PODLANE_TRY_ASSIGN(grant.umem, UmemMemory::create(*offer.umem));
    if (offer.style == HandoverStyle::kUnbound) return send(UmemMessage{});
    return send(UmemMessage{}, {grant.umem.memfd()});
  }

  Result<void> take_fds(const Offer& offer, std::vector<UniqueFd> fds, LaneGrant& grant) {
    const LaneDescription& lane = grant.description;
    const bool wants_xsk = offer.umem.has_value();
    if (fds.size() != lane.fds.size()) {
      return fail(Errc::kProtocol, "the description names " + std::to_string(lane.fds.size()) + " descriptors, " +
                                       std::to_string(fds.size()) + " came");
    }
    if (lane.kind != offer.kind || lane.xsk.has_value() != wants_xsk) {
      return fail(Errc::kProtocol, "the description does not fit the offer");
    }
    if (wants_xsk && (lane.xsk->umem.frames != offer.umem->frames ||
                      lane.xsk->umem.frame_size_bytes != offer.umem->frame_size_bytes)) {
      return fail(Errc::kProtocol, "the description's UMEM is not the one that was offered");
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (lane.fds[i] == "xsk" && wants_xsk && !grant.xsk.valid()) grant.xsk = std::move(fds[i]);
      else if (lane.fds[i] == "tun") grant.tuns.push_back(std::move(fds[i]));
      else return fail(Errc::kProtocol, "descriptor '" + lane.fds[i] + "' was not expected");
    }
    if (wants_xsk && !grant.xsk.valid()) return fail(Errc::kProtocol, "no AF_XDP socket came");
    if (grant.tuns.empty()) return fail(Errc::kProtocol, "no TUN descriptor came");
    return {};
  }

  Result<void> send(const HandoverMessage& message, const std::vector<int>& fds = {}) {
    auto sent = seqpacket_send(socket_.get(), encode(message), fds, std::min(options_.step_timeout, left_until(deadline_)));
    // The reason for a close lies in the receive queue; the next receive tells it.
    if (!sent && sent.error().code() == Errc::kGone) return {};
    return sent;
  }

  Result<Received> receive(std::string_view what) {
    const MonotonicTime step_end = std::min(deadline_, std::chrono::steady_clock::now() + options_.step_timeout);
    PODLANE_TRY_ASSIGN(const bool ready, wait_readable(socket_.get(), options_.cancel_fd, step_end));
    if (!ready) return fail(Errc::kUnavailable, "the device plugin did not answer: waited for '" + std::string(what) + "'");
    auto raw = seqpacket_receive(socket_.get(), kHandoverMessageMaxBytes, kHandoverMaxFds, milliseconds(0));
    if (!raw && raw.error().code() == Errc::kGone) return fail(Errc::kUnavailable, "the device plugin went away");
    if (!raw) return std::unexpected(std::move(raw).error());
    if (raw->text.empty() && raw->fds.empty()) return fail(Errc::kUnavailable, "the device plugin went away");
    auto message = decode_handover(raw->text);
    if (!message) return std::unexpected(std::move(message).error().as(Errc::kProtocol).with("the device plugin's message"));
    if (const auto* refusal = std::get_if<HandoverRefusal>(&*message)) return std::unexpected(error_of(*refusal));
    return Received{.message = std::move(*message), .fds = std::move(raw->fds)};
  }

  std::unexpected<Error> unexpected_message(std::string_view wanted) {
    return fail(Errc::kProtocol, "the device plugin broke the protocol: '" + std::string(wanted) + "' was due");
  }

  const HandoverOptions& options_;
  MonotonicTime deadline_;
  UniqueFd socket_;
};

}  // namespace

Result<LaneGrant> request_lane(const HandoverOptions& options, MonotonicTime deadline) {
  std::string last_reason;
  milliseconds pause = kPauseMin;
  std::optional<MonotonicTime> busy_end;
  std::optional<Error> busy;
  for (;;) {
    Result<LaneGrant> grant = Attempt(options, deadline).run();
    if (grant) return grant;
    const MonotonicTime now = std::chrono::steady_clock::now();
    if (grant.error().code() == Errc::kBusy) {
      if (!busy_end) busy_end = now + kBusyPatience;
      if (now >= std::min(*busy_end, deadline)) return grant;
      busy = grant.error();
    } else {
      if (grant.error().code() != Errc::kUnavailable) return grant;
      // The last attempt is cut short by the deadline: the last answer tells more.
      if (now >= deadline && busy) return std::unexpected(std::move(*busy));
      if (now >= deadline) return std::unexpected(std::move(grant).error().with("no lane in time"));
      busy_end.reset();
      busy.reset();
    }
    if (options.on_wait && grant.error().message() != last_reason) options.on_wait(grant.error().message());
    last_reason = grant.error().message();
    PODLANE_TRY(wait_readable(-1, options.cancel_fd, std::min(deadline, now + pause)));
    pause = std::min(pause * 2, kPauseMax);
  }
}

}  // namespace podlane::lane
