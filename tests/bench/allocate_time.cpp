// bench_allocate: how long the device plugin's Allocate takes, as a kubelet sees it: one call after the other, one device
// each, over the plugin's own socket. The kubelet holds its lock meanwhile, so a slow answer holds up every pod of the node.
//   bench_allocate --socket /var/lib/kubelet/device-plugins/podlane-burst.sock --count 500
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "deviceplugin.grpc.pb.h"
#include "deviceplugin/kubelet/grpc_util.hpp"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

constexpr int kMaxMessageBytes = 1 << 20;

std::vector<std::string> device_ids(v1beta1::DevicePlugin::Stub& plugin) {
  grpc::ClientContext context;
  const auto stream = plugin.ListAndWatch(&context, {});
  v1beta1::ListAndWatchResponse list;
  if (!stream->Read(&list)) throw std::runtime_error("no list of devices: " + stream->Finish().error_message());
  context.TryCancel();
  std::vector<std::string> ids;
  for (const auto& device : list.devices()) ids.push_back(device.id());
  return ids;
}

void allocate(v1beta1::DevicePlugin::Stub& plugin, const std::string& id) {
  v1beta1::AllocateRequest request;
  request.add_container_requests()->add_devices_ids(id);
  v1beta1::AllocateResponse answer;
  grpc::ClientContext context;
  const grpc::Status status = plugin.Allocate(&context, request, &answer);
  if (!status.ok()) throw std::runtime_error("Allocate of " + id + ": " + status.error_message());
  if (answer.container_responses_size() != 1) throw std::runtime_error("Allocate of " + id + ": no answer for it");
}

int run(int argc, char** argv) {
  std::string socket;
  std::size_t count = 500;
  int cpu = -1;
  CLI::App app("Time of Allocate");
  app.add_option("--socket", socket, "the plugin's socket")->required();
  app.add_option("--count", count, "devices to allocate, each once")->capture_default_str();
  app.add_option("--cpu", cpu);
  CLI11_PARSE(app, argc, argv);
  pin_to_cpu(cpu);
  const auto plugin = v1beta1::DevicePlugin::NewStub(dp::unix_channel("unix:" + socket, kMaxMessageBytes));
  std::vector<std::string> ids = device_ids(*plugin);
  if (ids.size() < count) {
    throw std::runtime_error("the pool has " + std::to_string(ids.size()) + " devices, " + std::to_string(count) +
                             " are wanted");
  }
  ids.resize(count);
  RoundResult result{.what = "Allocate"};
  Samples samples(count);
  const Usage before = usage_now();
  for (const std::string& id : ids) {
    const std::int64_t start_ns = now_ns();
    allocate(*plugin, id);
    samples.add(now_ns() - start_ns);
  }
  print_round(result, samples, before, usage_now());
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_allocate: %s\n", failure.what());
    return 1;
  }
}
