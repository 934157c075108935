// The doctor on a whole node, one file of which holds anything: a snapshot comes from elsewhere, and files of a pod or
// a driver say what they like. The first byte chooses the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ctl/doctor/doctor.hpp"
#include "ctl/doctor/render.hpp"
#include "lib/json/json.hpp"
#include "tests/unit/doctor/check_cases.hpp"

using namespace podlane;

namespace {

struct Base {
  nodeconfig::Recording node;
  std::vector<std::string> files;
};

Base make_base() {
  doctor::test::Node node(doctor::test::shape());
  doctor::test::furnish(node);
  Base base;
  for (const auto& [check, file] : doctor::test::judged_files()) {
    if (node.has(file)) base.files.push_back(file);
  }
  base.files.emplace_back("/run/podlane/lanes.json");
  node.put(base.files.back(), doctor::test::lanes_json(R"("inForce": {"zeroCopy": true})"));
  auto tree = nodeconfig::Tree::open(node.root());
  if (!tree) std::abort();
  tree->record_into(&base.node);
  if (!doctor::consult(*tree, {.pod = {}, .nic = {}, .cpus = {}, .may_measure = false})) std::abort();
  return base;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Base base = make_base();
  if (size == 0) return 0;
  nodeconfig::Recording node = base.node;
  node.files[base.files[data[0] % base.files.size()]].text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto tree = nodeconfig::Tree::replay(std::move(node));
  const auto report = doctor::consult(tree, {.pod = {}, .nic = {}, .cpus = {}, .may_measure = false});
  if (!report) return 0;
  if (report->findings.size() != doctor::all_checks().size()) std::abort();
  for (const doctor::Finding& finding : report->findings) {
    if (finding.verdict.is.empty()) std::abort();
  }
  if (!json::parse(doctor::render_json(report->findings))) std::abort();
  (void)doctor::render_text(report->findings, report->head, {.all = true, .colour = false});
  return 0;
}
