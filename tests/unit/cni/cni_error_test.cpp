#include "cni/spec/cni_error.hpp"

#include <gtest/gtest.h>

#include "cni/plugin/control.hpp"

namespace podlane::cni {
namespace {

TEST(CniError, EachKindOfErrorHasItsCode) {
  const std::pair<Errc, int> rows[] = {
      {Errc::kUnavailable, 11}, {Errc::kBusy, 11}, {Errc::kExists, 107},     {Errc::kProtocol, 103}, {Errc::kInvalid, 104},
      {Errc::kNotFound, 104},   {Errc::kGone, 104}, {Errc::kUnsupported, 104}, {Errc::kDenied, 104},   {Errc::kIo, 104}};
  for (const auto& [kind, code] : rows) {
    const CniError error(podlane::Error(kind, "why"));
    EXPECT_EQ(error.code, code);
    EXPECT_NE(error.message.find("why"), std::string::npos);
  }
}

TEST(CniError, DocumentIsWhatTheSpecAsksFor) {
  EXPECT_EQ(to_json(CniError(CniCode::kRefused, "mode \"x\"\n"), "1.0.0"),
            R"({"cniVersion":"1.0.0","code":102,"msg":"mode \"x\"\n","details":""})");
}

TEST(Granted, EachRefusalAndFailureHasItsCode) {
  using lane::ControlCode;
  const std::pair<ControlCode, int> refusals[] = {{ControlCode::kNoLane, 100},   {ControlCode::kGone, 101},
                                                  {ControlCode::kRefused, 102},  {ControlCode::kNotReady, 11},
                                                  {ControlCode::kProtocol, 103}, {ControlCode::kInternal, 104}};
  for (const auto& [code, expected] : refusals) {
    const auto answer = granted(lane::ControlAnswer{.refusal = lane::ControlRefusal{code, "because"}});
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, expected);
    EXPECT_EQ(answer.error().message, "because");
  }
  // Not there; there and silent: both are worth another try. An answer that is none is not.
  for (const auto& [kind, expected] :
       {std::pair{Errc::kUnavailable, 11}, {Errc::kIo, 11}, {Errc::kGone, 103}, {Errc::kInvalid, 103}}) {
    const auto answer = granted(std::unexpected(podlane::Error(kind, "socket /x")));
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, expected);
    EXPECT_NE(answer.error().message.find("/x"), std::string::npos);
  }
  EXPECT_TRUE(granted(lane::ControlAnswer{}).has_value());
}

}  // namespace
}  // namespace podlane::cni
