// The control socket's verbs: from a request to an answer. The one table from our errors to the protocol's codes.
#include <set>

#include "deviceplugin/lanes/table.hpp"

namespace podlane::dp {

namespace {

lane::ControlCode code_of(Errc code) {
  switch (code) {
    case Errc::kNotFound: return lane::ControlCode::kNoLane;
    case Errc::kGone: return lane::ControlCode::kGone;
    case Errc::kInvalid:
    case Errc::kExists:
    case Errc::kDenied:
    case Errc::kBusy:
    case Errc::kUnsupported: return lane::ControlCode::kRefused;
    case Errc::kUnavailable: return lane::ControlCode::kNotReady;
    case Errc::kProtocol: return lane::ControlCode::kProtocol;
    case Errc::kIo: return lane::ControlCode::kInternal;
  }
  return lane::ControlCode::kInternal;
}

lane::ControlAnswer answer_of(const Result<void>& result) {
  if (result) return {};
  return {.refusal = lane::ControlRefusal{code_of(result.error().code()), result.error().message()}};
}

std::string_view verb_of(const lane::ControlRequest& request) {
  static constexpr std::string_view kVerbs[] = {"attach", "commit", "detach", "check", "attachments", "status"};
  static_assert(std::variant_size_v<lane::ControlRequest> == std::size(kVerbs));
  return kVerbs[request.index()];
}

}  // namespace

lane::ControlAnswer Table::handle_control(const lane::ControlRequest& request, std::vector<UniqueFd> fds,
                                          const ControlServer::IsAbandoned& is_abandoned) {
  lane::ControlAnswer answer;
  if (const auto* const attach_request = std::get_if<lane::AttachRequest>(&request)) {
    if (fds.size() != 1) {
      answer = answer_of(fail(Errc::kProtocol, "attach must carry the pod's network namespace as its one descriptor"));
    } else if (auto plans = attach(*attach_request, fds.front().get(), is_abandoned); plans) {
      answer.lanes = std::move(*plans);
    } else {
      answer = answer_of(std::unexpected(std::move(plans).error()));
    }
  } else if (const auto* const commit_request = std::get_if<lane::CommitRequest>(&request)) {
    answer = answer_of(commit(*commit_request));
  } else if (const auto* const detach_request = std::get_if<lane::DetachRequest>(&request)) {
    answer = answer_of(detach(detach_request->attachment));
    if (!answer.refusal) in_state([&](LaneStore&) { ++counters_.detaches_total; });
  } else if (const auto* const check_request = std::get_if<lane::CheckRequest>(&request)) {
    answer = answer_of(check(*check_request));
  } else if (const auto* const attachments = std::get_if<lane::AttachmentsRequest>(&request)) {
    std::set<lane::Attachment> known;
    in_state([&](LaneStore& store) {
      for (const auto& [device, lane] : store.lanes()) {
        const lane::Attachment& attachment = lane.record.owner.attachment;
        if (lane.is_bound() && attachment.network == attachments->network) known.insert(attachment);
      }
    });
    answer.attachments.assign(known.begin(), known.end());
  }
  // status needs nothing: who gets an answer at all finds the table serving.
  if (answer.refusal) {
    log_.warn("a control request was refused", {{"verb", verb_of(request)},
                                                {"code", lane::to_string(answer.refusal->code)},
                                                {"why", answer.refusal->message}});
  }
  return answer;
}

}  // namespace podlane::dp
