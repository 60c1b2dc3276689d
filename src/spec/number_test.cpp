#include "spec/number.h"

#include <gtest/gtest.h>

#include <limits>

namespace cadre {
namespace {

template <typename Number>
std::string refusal(const Result<Number>& result) {
  return result.ok() ? "accepted" : result.error().message;
}

TEST(Number, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_number("2e-5").value(), 2e-5);  // a text to YAML 1.1, for want of a dot
  EXPECT_EQ(parse_number("-1.5E+3").value(), -1500);
  EXPECT_EQ(parse_number("+.5").value(), 0.5);
  EXPECT_EQ(parse_number("5.").value(), 5);
  EXPECT_EQ(parse_number("0").value(), 0);
  EXPECT_EQ(parse_whole("1_000_000").value(), 1000000);
  EXPECT_EQ(parse_whole("1e3").value(), 1000);
  EXPECT_EQ(parse_whole("2.0").value(), 2);
  EXPECT_EQ(parse_whole("-7").value(), -7);
  EXPECT_EQ(parse_unsigned("18446744073709551615").value(), std::numeric_limits<uint64_t>::max());
}

TEST(Number, RefusesWhatReadersOfYamlDisagreeOn) {
  EXPECT_EQ(refusal(parse_whole("010")),
            "with a leading zero, which some readers take for octal; write it without");
  EXPECT_EQ(refusal(parse_whole("0o10")),
            "which is not decimal; write the number in decimal digits");
  EXPECT_EQ(refusal(parse_whole("0x10")),
            "which is not decimal; write the number in decimal digits");
  EXPECT_EQ(refusal(parse_whole("1__0")), "with an underscore that is not between two digits");
  EXPECT_EQ(refusal(parse_number("1_.5")), "with an underscore that is not between two digits");
  EXPECT_EQ(refusal(parse_whole("1:30")), "");  // 90 to YAML 1.1
}

TEST(Number, RefusesWhatIsNoFiniteNumber) {
  EXPECT_EQ(refusal(parse_number(".inf")), "");
  EXPECT_EQ(refusal(parse_number("nan")), "which is not finite");
  EXPECT_EQ(refusal(parse_number("-inf")), "which is not finite");
  EXPECT_EQ(refusal(parse_number("1e999")), "which is beyond the range of a double");
  EXPECT_EQ(refusal(parse_number("")), "");
  EXPECT_EQ(refusal(parse_number("--1")), "");
  EXPECT_EQ(refusal(parse_number("3 4")), "");
}

TEST(Number, RefusesWhatIsNotWhole) {
  EXPECT_EQ(refusal(parse_whole("1.5")), "which is not whole");
  EXPECT_EQ(refusal(parse_whole("1e-1")), "which is not whole");
  EXPECT_EQ(refusal(parse_whole("9223372036854775808")), "which is too large");
  EXPECT_EQ(refusal(parse_whole("1e300")), "which is too large");
  EXPECT_EQ(refusal(parse_unsigned("-1")), "which is negative");
}

}  // namespace
}  // namespace cadre
