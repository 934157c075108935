// What a client may do wrong, on purpose or not: it is told, its connection ends, and the lane still works for the
// next.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>

#include "tests/kernel/handover/lane_fixture.hpp"

namespace podlane::test {
namespace {

using lane::HandoverStyle;

constexpr char kHello[] = R"({"type":"hello","version":1,"client":"raw"})";
constexpr char kUmem[] = R"({"type":"umem"})";
constexpr char kReady[] = R"({"type":"ready"})";
constexpr char kAck[] = R"({"type":"ack"})";
constexpr std::size_t kUmemBytes = 512 * 2048;

bool is_offer(const std::string& text) {
  return text.starts_with(R"({"type":"offer")");
}
bool is_lane(const std::string& text) {
  return text.starts_with(R"({"type":"lane")");
}

class Refusals : public HandoverTest {
 protected:
  void SetUp() override { path_ = serve_veth_lane("feed-0", HandoverStyle::kFinished); }
  void TearDown() override {
    // Whatever was tried: the lane is still good. Finished sockets are made on any kernel; their rings are not mapped
    // there.
    if (!finished_sockets()) path_ = serve_veth_lane("feed-0", usual_style());
    Probe probe(pod_.path(), path_);
    const std::string line = probe.line();
    EXPECT_TRUE(line.starts_with("granted ")) << line;
    EXPECT_EQ(frames_echoed("podfar", 20), 20);
  }
  RawClient client() { return RawClient(pod_, path_); }
  // Brings a client to the step named; it may then misbehave.
  RawClient client_at(const std::string& step) {
    RawClient raw = client();
    if (step == "hello") return raw;
    EXPECT_TRUE(raw.send(kHello));
    EXPECT_TRUE(is_offer(raw.receive()));
    if (step == "umem") return raw;
    const UniqueFd memfd = make_memfd(kUmemBytes, 0, kSeals);
    EXPECT_TRUE(raw.send(kUmem, {memfd.get()}));
    EXPECT_TRUE(is_lane(raw.receive()));
    EXPECT_EQ(raw.fds.size(), 2U);
    if (step == "ack") return raw;
    EXPECT_TRUE(raw.send(kAck));
    return raw;
  }
  std::string path_;
};

TEST_F(Refusals, MessagesThatAreOutOfOrderOrGarbage) {
  struct Case {
    const char* name;
    const char* step;
    std::string text;
  };
  const std::string deep = R"({"type":"hello","version":1,"x":)" + std::string(50, '[') + std::string(50, ']') + "}";
  const Case cases[] = {
      {"umem before hello", "hello", kUmem},
      {"ack before hello", "hello", kAck},
      {"resolve before hello", "hello", R"({"type":"resolve","ip":"10.0.0.1"})"},
      {"hello twice", "umem", kHello},
      {"ack instead of umem", "umem", kAck},
      {"ready instead of umem", "umem", kReady},
      {"umem twice", "ack", kUmem},
      {"ready instead of ack", "ack", kReady},
      {"hello in the session", "open", kHello},
      {"a daemon's message", "open", R"({"type":"resumed"})"},
      {"bad address", "open", R"({"type":"resolve","ip":"no"})"},
      {"negative counter", "open", R"({"type":"stats","counters":{"a":-1}})"},
      {"not JSON", "hello", "hello"},
      {"binary", "hello", std::string("\0\xff\x01", 3)},
      {"array", "hello", "[]"},
      {"unknown type", "hello", R"({"type":"take"})"},
      {"no version", "hello", R"({"type":"hello"})"},
      {"version of text", "hello", R"({"type":"hello","version":"1"})"},
      {"too deep", "hello", deep},
      {"too long", "hello", R"({"type":"hello","version":1,"client":")" + std::string(17000, 'x') + "\"}"},
      {"long client", "hello", R"({"type":"hello","version":1,"client":")" + std::string(500, 'x') + "\"}"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RawClient raw = client_at(c.step);
    ASSERT_TRUE(raw.send(c.text));
    EXPECT_EQ(raw.code(), "protocol");
    EXPECT_TRUE(raw.closed());
  }
  EXPECT_TRUE(wait_event("refused feed-0 protocol", static_cast<int>(std::size(cases))));
}

TEST_F(Refusals, OtherVersion) {
  RawClient raw = client();
  ASSERT_TRUE(raw.send(R"({"type":"hello","version":2,"client":7})"));
  EXPECT_EQ(raw.code(), "version");
  EXPECT_TRUE(wait_event("refused feed-0 version"));
}

TEST_F(Refusals, WrongNamespaceIsDeniedWithoutTellingWhy) {
  for (const bool resume : {false, true}) {
    RawClient raw(wire_, path_);
    ASSERT_TRUE(raw.send(resume ? R"({"type":"hello","version":1,"resume":true})" : kHello));
    const std::string text = raw.receive();
    EXPECT_NE(text.find(R"("code":"denied")"), std::string::npos) << text;
    EXPECT_EQ(text.find(pod_.name()), std::string::npos) << text;
    EXPECT_EQ(text.find("10.9.0.5"), std::string::npos) << text;
    EXPECT_TRUE(raw.closed());
  }
}

TEST_F(Refusals, MemoryThatIsNotAsAgreed) {
  char name[] = "/tmp/handover-file-XXXXXX";
  const UniqueFd file(::mkstemp(name));
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file.get(), kUmemBytes), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd pipe_in(ends[0]), pipe_out(ends[1]);
  const UniqueFd unsealed = make_memfd(kUmemBytes, 0, 0);
  const UniqueFd partly = make_memfd(kUmemBytes, 0, F_SEAL_SHRINK | F_SEAL_GROW);
  const UniqueFd shorter = make_memfd(kUmemBytes - 4096, 0, kSeals);
  const UniqueFd longer = make_memfd(kUmemBytes + 4096, 0, kSeals);
  const UniqueFd empty = make_memfd(0, 0, kSeals, /*touch=*/false);
  const UniqueFd enormous = make_memfd(std::size_t{1} << 40, 0, kSeals, /*touch=*/false);
  const UniqueFd write_sealed = make_memfd(kUmemBytes, 0, kSeals | F_SEAL_WRITE);
  const UniqueFd future_write = make_memfd(kUmemBytes, 0, kSeals | F_SEAL_FUTURE_WRITE);
  const UniqueFd untouched = make_memfd(kUmemBytes, 0, kSeals, /*touch=*/false);
  const UniqueFd good = make_memfd(kUmemBytes, 0, kSeals);
  const UniqueFd read_only(::open(("/proc/self/fd/" + std::to_string(good.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const std::pair<const char*, const UniqueFd*> cases[] = {
      {"a file", &file},
      {"a pipe", &pipe_in},
      {"unsealed", &unsealed},
      {"partly sealed", &partly},
      {"short", &shorter},
      {"long", &longer},
      {"empty", &empty},
      {"enormous", &enormous},
      {"write sealed", &write_sealed},
      {"future write sealed", &future_write},
      {"untouched", &untouched},
      {"read only", &read_only},
  };
  for (const auto& [what, fd] : cases) {
    SCOPED_TRACE(what);
    RawClient raw = client_at("umem");
    ASSERT_TRUE(raw.send(kUmem, {fd->get()}));
    EXPECT_EQ(raw.code(), "umem");
    EXPECT_TRUE(raw.closed());
  }
  // None at all, and one too many.
  RawClient none = client_at("umem");
  ASSERT_TRUE(none.send(kUmem));
  EXPECT_EQ(none.code(), "umem");
  RawClient two = client_at("umem");
  ASSERT_TRUE(two.send(kUmem, {good.get(), good.get()}));
  EXPECT_EQ(two.code(), "protocol");
}

TEST_F(Refusals, HugePagesThatThePoolDoesNotHave) {
  const UniqueFd huge(::memfd_create("umem", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!huge.valid()) GTEST_SKIP() << "no 2 MiB pages on this machine";
  ASSERT_EQ(::ftruncate(huge.get(), 2 << 20), 0);
  ASSERT_EQ(::fcntl(huge.get(), F_ADD_SEALS, kSeals), 0);
  RawClient raw = client_at("umem");
  ASSERT_TRUE(raw.send(kUmem, {huge.get()}));
  EXPECT_EQ(raw.code(), "umem");
}

TEST_F(Refusals, DescriptorsWhereNoneBelongAreClosed) {
  const UniqueFd gift = make_memfd(4096, 0, 0);
  for (const char* step : {"hello", "ack", "open"}) {
    SCOPED_TRACE(step);
    RawClient raw = client_at(step);
    ASSERT_TRUE(raw.send(std::string(step) == "hello" ? kHello
                         : std::string(step) == "ack" ? kAck
                                                      : R"({"type":"stats","counters":{}})",
                         {gift.get(), gift.get(), gift.get()}));
    EXPECT_EQ(raw.code(), "protocol");
  }
  RawClient raw = client();
  ASSERT_TRUE(raw.send(kHello, std::vector<int>(40, gift.get())));
  EXPECT_EQ(raw.code(), "protocol");
}

// A TCP socket whose last close() sleeps for 20 s: SO_LINGER, and its peer does not read.
class Lingering {
 public:
  explicit Lingering(const ScratchNetns& netns) {
    netns.inside([&] {
      const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
      socklen_t size = sizeof(address);
      auto* const any = reinterpret_cast<sockaddr*>(&address);
      socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ok = ::bind(listener.get(), any, size) == 0 && ::listen(listener.get(), 1) == 0 &&
           ::getsockname(listener.get(), any, &size) == 0 && ::connect(socket.get(), any, size) == 0;
      peer_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    });
    const std::string much(65536, 'x');
    while (ok && ::send(socket.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger on{.l_onoff = 1, .l_linger = 20};
    ok = ok && ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &on, sizeof(on)) == 0;
  }
  void end() { peer_.reset(); }  // Whoever sleeps wakes.
  UniqueFd socket;
  bool ok = false;

 private:
  UniqueFd peer_;
};

// By our close(), by recvmsg() of more than fit, by the kernel when a socket goes with messages that nobody has read.
TEST_F(Refusals, DescriptorsThatAreSlowToCloseHoldNobodyUp) {
  pod_.inside([] { must_run("ip link set lo up"); });
  make_tun("lane1");
  const std::string other = serve_tun_lane("vpn-0", "lane1");
  struct Case {
    const char* name;
    const char* step;
    const char* text;
    int messages_before;
    std::size_t descriptors;
  };
  const Case cases[] = {{"with hello", "hello", kHello, 0, 1},
                        {"as UMEM", "umem", kUmem, 0, 1},
                        {"more than fit", "hello", kHello, 0, 200},
                        {"never read", "hello", "garbage", 60, 1}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Lingering slow(pod_);
    ASSERT_TRUE(slow.ok);
    RawClient raw = client_at(c.step);
    for (int i = 0; i < c.messages_before; ++i) {
      if (!raw.send("garbage")) break;  // Refused already: then the rest is not sent.
    }
    (void)raw.send(c.text, std::vector<int>(c.descriptors, slow.socket.get()));
    // The server may have let go already: then the last copy is ours, and it is this thread that sleeps.
    std::thread closer([&] { slow.socket.reset(); });
    raw.close();
    // In this process: a child would have a copy until its exec, and sleep there.
    RawClient next(pod_, other);
    EXPECT_TRUE(next.send(kHello));
    const std::string answer = next.receive();
    EXPECT_NE(answer.find(R"("type":"offer")"), std::string::npos) << answer;
    next.close();
    slow.end();
    closer.join();
  }
}

TEST_F(Refusals, DisconnectAfterEachStep) {
  for (const char* step : {"hello", "umem", "ack", "open"}) {
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(step);
      const int before = open_descriptors();
      { RawClient raw = client_at(step); }
      // And in the middle of the daemon's work.
      RawClient raw = client();
      ASSERT_TRUE(raw.send(kHello));
      raw.close();
      EXPECT_TRUE(eventually(5s, [&] { return open_descriptors() == before; })) << open_descriptors() - before;
    }
  }
  const int before = open_descriptors();
  RawClient raw = client_at("umem");
  const UniqueFd memfd = make_memfd(kUmemBytes, 0, kSeals);
  ASSERT_TRUE(raw.send(kUmem, {memfd.get()}));
  raw.close();
  EXPECT_TRUE(eventually(5s, [&] { return open_descriptors() == before + 1; })) << open_descriptors() - before;
}

TEST_F(Refusals, SecondClientWhileOneLives) {
  if (!finished_sockets()) path_ = serve_veth_lane("feed-0", usual_style());
  Probe probe(pod_.path(), path_);
  ASSERT_TRUE(probe.line().starts_with("granted "));
  RawClient second = client();
  ASSERT_TRUE(second.send(kHello));
  EXPECT_EQ(second.code(), "busy");
  RawClient resuming = client();
  ASSERT_TRUE(resuming.send(R"({"type":"hello","version":1,"resume":true})"));
  EXPECT_EQ(resuming.code(), "busy");
  EXPECT_EQ(frames_echoed("podfar", 50), 50);
}

TEST_F(Refusals, TwoClientsAtTheSameStepGetOneLane) {
  RawClient first = client_at("umem"), second = client_at("umem");
  const UniqueFd memfd = make_memfd(kUmemBytes, 0, kSeals);
  ASSERT_TRUE(first.send(kUmem, {memfd.get()}));
  EXPECT_TRUE(is_lane(first.receive()));
  ASSERT_TRUE(second.send(kUmem, {memfd.get()}));
  EXPECT_EQ(second.code(), "busy");
}

TEST_F(Refusals, SlowClientIsLetGoAfterTenSeconds) {
  RawClient silent = client(), half = client_at("umem"), unacknowledged = client_at("ack");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(silent.code(), "protocol");
  EXPECT_EQ(half.code(), "protocol");
  EXPECT_EQ(unacknowledged.code(), "protocol");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took, 8s);
  EXPECT_LT(took, 14s);
}

TEST_F(Refusals, ManyHalfOpenClientsAreBounded) {
  std::vector<RawClient> crowd;
  for (int i = 0; i < 8; ++i) crowd.push_back(client_at("umem"));
  RawClient one_more = client();
  EXPECT_EQ(one_more.code(), "busy");
  // Another lane is not concerned.
  make_tun("lane1");
  const std::string other = serve_tun_lane("vpn-0", "lane1");
  EXPECT_TRUE(Probe(pod_.path(), other).line().starts_with("granted "));
}

TEST_F(Refusals, FloodInASessionIsSlowedAndHarmsNobody) {
  RawClient flood = client_at("open");
  ASSERT_TRUE(wait_event("opened feed-0"));
  int sent = 0;
  const auto end = std::chrono::steady_clock::now() + 1500ms;
  while (std::chrono::steady_clock::now() < end && sent < 100000) {
    if (flood.send(R"({"type":"stats","counters":{"frames":1}})")) ++sent;
  }
  EXPECT_LE(owner_.count("stats feed-0 frames=1"), 4);
  flood.close();
  EXPECT_TRUE(wait_event("closed feed-0"));
}

}  // namespace
}  // namespace podlane::test
