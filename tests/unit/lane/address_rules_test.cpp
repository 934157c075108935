#include "lib/lane/address_rules.hpp"

#include <gtest/gtest.h>

namespace podlane::lane {
namespace {

TEST(AddressRules, SayWhyAnAddressIsNoHosts) {
  struct Row {
    const char* prefix;
    const char* why;  // Empty: a host may own it.
  };
  for (const Row& row : {
           Row{"10.9.0.5/24", ""},
           Row{"10.9.0.5/32", ""},
           Row{"10.9.0.4/31", ""},
           Row{"2001:db8::5/64", ""},
           Row{"2001:db8::/127", ""},
           Row{"2001:db8::ffff:0:0/64", ""},
           Row{"10.9.0.0/24", "network"},
           Row{"2001:db8::/64", "network"},
           Row{"10.9.0.255/24", "broadcast"},
           Row{"10.9.255.255/17", "broadcast"},
           Row{"0.0.0.0/24", "unspecified"},
           Row{"0.1.2.3/24", "reserved"},
           Row{"250.1.2.3/24", "reserved"},
           Row{"::/64", "unspecified"},
           Row{"::1/128", "loopback"},
           Row{"127.0.0.1/8", "loopback"},
           Row{"224.0.0.1/24", "multicast"},
           Row{"239.255.255.254/24", "multicast"},
           Row{"ff02::1/64", "multicast"},
           Row{"::ffff:10.9.0.5/120", "IPv4"},
       }) {
    const auto prefix = net::parse_ip_prefix(row.prefix);
    ASSERT_TRUE(prefix.has_value()) << row.prefix;
    const std::string_view why = why_not_a_host(*prefix);
    EXPECT_EQ(why.empty(), row.why[0] == 0) << row.prefix << ": " << why;
    EXPECT_NE(why.find(row.why), why.npos) << row.prefix << ": " << why;
  }
}

TEST(AddressRules, DecimalHasOneSpelling) {
  EXPECT_EQ(parse_decimal("0"), 0U);
  EXPECT_EQ(parse_decimal("999999999"), 999999999U);
  for (const char* text : {"", "00", "01", "-1", "+1", " 1", "1 ", "0x1", "1000000000"}) {
    EXPECT_FALSE(parse_decimal(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace podlane::lane
