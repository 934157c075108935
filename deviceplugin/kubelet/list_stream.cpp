#include "deviceplugin/kubelet/list_stream.hpp"

namespace podlane::dp {

void ListStream::send(const v1beta1::ListAndWatchResponse& list) {
  const std::lock_guard lock(mutex_);
  if (finished_ || end_) return;
  if (writing_) {
    next_ = list;
    return;
  }
  write_locked(list);
}

void ListStream::write_locked(const v1beta1::ListAndWatchResponse& list) {
  message_ = list;
  writing_ = true;
  StartWrite(&message_);
}

void ListStream::end(const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || end_) return;
    if (writing_) {
      // Finish beside an outstanding write could drop into the middle of it: OnWriteDone takes this up.
      end_ = status;
      return;
    }
    finished_ = true;
  }
  // Outside the lock: OnDone may follow at once and destroy this object.
  Finish(status);
}

void ListStream::OnWriteDone(bool ok) {
  grpc::Status status;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok && !end_) {
      if (next_) {
        write_locked(*next_);
        next_.reset();
      }
      return;
    }
    if (finished_) return;
    finished_ = true;
    status = end_.value_or(grpc::Status(grpc::StatusCode::CANCELLED, "the kubelet does not read any more"));
  }
  Finish(status);
}

void ListStream::OnCancel() {
  end(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the kubelet"));
}

void ListStream::OnDone() {
  service_.stream_done(this);
}

}  // namespace podlane::dp
