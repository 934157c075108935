// Table: the lane table behind lane_table.hpp. Private to this folder; one file per concern:
//   lane_table.cpp  start, end, reports        allocate.cpp  the kubelet's calls      attach.cpp, commit.cpp  CNI ADD
//   release.cpp     undoing                    adopt.cpp     restart
//   reconcile.cpp, reconcile_attachments.cpp, nic_watch.cpp  timers
//   onload_watch.cpp  pools of kind onload
//   handover_owner.cpp  what the hand-over server asks       control_handlers.cpp  the control socket's verbs
// See lane_table.cpp, "How it works".
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "bpf/loader/steering.hpp"
#include "deviceplugin/handover/handover_server.hpp"
#include "deviceplugin/lanes/choose.hpp"
#include "deviceplugin/lanes/control_server.hpp"
#include "deviceplugin/lanes/device_claims.hpp"
#include "deviceplugin/lanes/executors.hpp"
#include "deviceplugin/lanes/lane_store.hpp"
#include "deviceplugin/lanes/lane_table.hpp"
#include "deviceplugin/lanes/neighbors.hpp"
#include "deviceplugin/lanes/pod_resources_cache.hpp"
#include "lib/journal/journal.hpp"
#include "lib/lane/control_msg.hpp"

namespace podlane::dp {

// How long an operation waits for another one on the same device.
inline constexpr auto kClaimWait = std::chrono::seconds(10);

class Table final : public LaneTable, public HandoverOwner {
 public:
  Table(const Config& config, const std::vector<DeviceSpec>& devices, LaneJournal journal, bpf::Steering steering,
        LaneTableOptions options, std::string boot_id, bool kernel_is_finished, PodResourcesQuery pod_resources,
        Log& log);
  ~Table() override;
  Result<void> run();  // Adopts, then serves. Once.

  // LaneTable
  std::vector<DeviceState> devices(const std::string& pool) override;
  void on_health_change(std::function<void(const std::string& pool)> callback) override;
  Result<AllocateAnswer> allocate(const std::string& pool, const std::vector<std::string>& device_ids) override;
  Result<std::vector<std::string>> prefer(const std::string& pool, const std::vector<std::string>& available,
                                          const std::vector<std::string>& must_include, std::size_t count) override;
  Result<void> pre_start(const std::string& pool, const std::vector<std::string>& device_ids) override;
  std::vector<LaneReport> report() override;
  TableCounters counters() override;

  // HandoverOwner
  Result<HandoverLane> lane_for_handover(const std::string& device) override;
  Result<void> install_socket(const std::string& device, int xsk_fd) override;
  void session_opened(const std::string& device, const lane::InForce& in_force, bool resumed) override;
  void session_closed(const std::string& device) override;
  void refused(const std::string& device, const std::string& code) override;
  void resolve(const std::string& device, const std::string& ip) override;
  void stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) override;

 private:
  using Claim = DeviceClaims::Claim;

  // The two owners of state: work on the store runs on the state thread, work on the BPF objects on the steering
  // thread. Both wait for the answer. The state thread never waits for anybody.
  template <typename Work>
  auto in_state(Work&& work) {
    return state_thread_.call([&] { return work(store_); });
  }
  template <typename Work>
  auto steer(Work&& work) {
    return steering_thread_.call([&] { return work(steering_); });
  }

  // allocate.cpp
  Result<void> evict(const std::string& device);
  Result<void> serve(const std::vector<LaneRecord>& records);

  // onload_watch.cpp. The reader is the housekeeping thread's, and run()'s before there is one.
  void look_at_onload();
  void note_listed(const LaneRecord& record, const std::vector<PodDevices>& listing);

  // attach.cpp
  Result<std::vector<lane::LanePlan>> attach(const lane::AttachRequest& request, int netns_fd,
                                             const ControlServer::IsAbandoned& is_abandoned);
  Result<std::vector<ChosenLane>> choose(const lane::AttachRequest& request,
                                         const ControlServer::IsAbandoned& is_abandoned);
  std::vector<lane::LanePlan> plans_of(const std::vector<Lane*>& lanes);
  Result<void> attach_take_over(const std::vector<ChosenLane>& chosen, std::uint64_t netns_cookie);
  Result<void> attach_check_addresses(const std::vector<ChosenLane>& chosen);
  Result<void> attach_bind(const lane::AttachRequest& request, const std::vector<ChosenLane>& chosen,
                           std::uint64_t netns_cookie);
  Result<void> attach_build(const std::string& device, int netns_fd);

  // commit.cpp
  Result<void> commit(const lane::CommitRequest& request);
  Result<void> commit_take_addresses(const lane::LaneMade& made);
  Result<void> steer_lane(const LaneRecord& record);  // Lane map, groups, watches; again: no change.
  void unwatch_lane(const LaneRecord& record);
  void announce_lane(const LaneRecord& record);
  Result<void> check(const lane::CheckRequest& request);

  // release.cpp. The caller holds the claim.
  Result<void> unbind(const std::string& device, const lane::Attachment* only_of);
  Result<void> release(const std::string& device);
  Result<void> detach(const lane::Attachment& attachment);

  // adopt.cpp
  Result<void> adopt();
  void adopt_lane(const LaneRecord& record);
  void drop_older_boot(const LaneRecord& record);
  void sweep();  // Removes kernel objects and directories that no record explains.
  void sweep_steering();
  void sweep_directories();

  // reconcile.cpp, nic_watch.cpp: the housekeeping thread.
  void housekeeping();
  void reconcile();
  void reconcile_bound(const LaneRecord& record, bool listed);
  void reconcile_reserved(const LaneRecord& record, bool listed);
  void reconcile_attachments(const std::vector<PodDevices>& listing);
  void reconcile_pending_deletes();
  void reconcile_old_boots();
  void end_attachment(const journal::AttachmentKey& key, std::string_view why);
  bool is_pod_gone(const LaneRecord& record, bool listed);
  void release_gone(const LaneRecord& record, bool keep_reserved, std::string_view why);
  Result<void> look_at_nics(bool at_start);
  Result<void> take_nic(const std::string& name, const NicFacts& facts);
  void lose_nic(const std::string& name, const std::string& why);
  Result<void> refuse_unfit_nics();
  void rebase_lanes(const std::string& nic_name);

  // handover_owner.cpp
  void neighbor_changed(IfIndex nic, const lane::Neighbor& neighbor);
  lane::Neighbor neighbor_for(LaneStore& store, const Lane& lane, const std::string& ip);
  std::vector<lane::Neighbor> neighbors_of(LaneStore& store, const Lane& lane);  // All that it watches.

  lane::ControlAnswer handle_control(const lane::ControlRequest& request, std::vector<UniqueFd> fds,
                                     const ControlServer::IsAbandoned& is_abandoned);
  LaneReport report_of(const Lane& lane) const;
  void lanes_changed();  // State thread. lanes.json follows.
  void write_lanes_json();
  void health_changed(const std::string& nic_name);  // State thread.

  const LaneTableOptions options_;
  const std::string boot_id_;
  const bool kernel_is_finished_;
  Log& log_;
  PodResourcesCache pod_resources_;
  DeviceClaims claims_;
  DeviceClaims attachment_claims_;  // Named by name_of(): attach and detach of one attachment come one after the other.

  const journal::Journal attachments_;  // The CNI plugin's records.

  OnloadReader onload_reader_;

  LaneStore store_;  // State thread only, as the next ones.
  TableCounters counters_;
  std::function<void(const std::string& pool)> health_callback_;
  bool json_running_ = false;
  bool json_dirty_ = false;
  bool ending_ = false;

  bpf::Steering steering_;  // Steering thread only.

  std::mutex housekeeping_mutex_;
  std::condition_variable housekeeping_wake_;
  bool stopping_ = false;

  // Ended from the last to the first: what posts to others ends before them.
  SerialThread state_thread_{"lanes"};
  SerialThread steering_thread_{"steering"};
  SerialThread scribe_thread_{"lanes-json"};
  std::unique_ptr<Neighbors> neighbors_;
  std::unique_ptr<HandoverServer> handover_;
  std::unique_ptr<BlockingWorkers> workers_;
  std::unique_ptr<ControlServer> control_;
  std::thread housekeeping_thread_;
};

inline std::string name_of(const lane::Attachment& attachment) {
  return attachment.network + " " + attachment.container_id + " " + attachment.ifname;  // None of them has blanks.
}

// The kernel said no: whatever the errno, it is not the pod's or the operator's input that is wrong.
template <typename T>
Result<T> kernel(Result<T> result, std::string_view operation, std::string_view object) {
  if (result) return result;
  return std::unexpected(std::move(result).error().with(operation, object).as(Errc::kIo));
}

}  // namespace podlane::dp
