#include "net/socket.h"

#include <gtest/gtest.h>

#include <thread>

namespace cadre::net {
namespace {

Deadline in_ms(int milliseconds) {
  return Clock::now() + std::chrono::milliseconds(milliseconds);
}

TEST(Socket, CarriesTextsBothWays) {
  Result<Socket> listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  const std::string large(3'000'000, 'x');
  std::jthread other([&] {
    Result<Socket> socket = connect_to({"127.0.0.1", port_of(*listener)}, in_ms(5000));
    ASSERT_TRUE(socket.ok());
    EXPECT_EQ(receive_text(*socket, 100, in_ms(5000)).value(), "hello");
    EXPECT_TRUE(send_text(*socket, large, in_ms(5000)).ok());
  });
  Result<Socket> socket = accept_from(*listener, in_ms(5000));
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(peer_address(*socket), "127.0.0.1");
  EXPECT_TRUE(send_text(*socket, "hello", in_ms(5000)).ok());
  EXPECT_EQ(receive_text(*socket, large.size(), in_ms(5000)).value(), large);
}

TEST(Socket, RefusesMoreThanIsAllowed) {
  Result<Socket> listener = listen_on(0);
  Result<Socket> socket = connect_to({"127.0.0.1", port_of(*listener)}, in_ms(5000));
  Result<Socket> other = accept_from(*listener, in_ms(5000));
  ASSERT_TRUE(send_text(*socket, "12345678", in_ms(100)).ok());
  EXPECT_EQ(receive_text(*other, 7, in_ms(100)).error().message,
            "127.0.0.1 announced 8 bytes, at most 7 are allowed");
}

TEST(Socket, TellsWhenNothingComes) {
  Result<Socket> listener = listen_on(0);
  Result<Socket> socket = connect_to({"127.0.0.1", port_of(*listener)}, in_ms(5000));
  EXPECT_EQ(receive_text(*socket, 7, in_ms(20)).error().message, "127.0.0.1 said nothing in time");
  EXPECT_TRUE(accept_from(*listener, in_ms(1000)).ok());
  EXPECT_EQ(receive_text(*socket, 7, in_ms(1000)).error().message,
            "127.0.0.1 closed the connection");
}

TEST(Socket, NamesAHostThatIsNotThere) {
  const Result<Socket> socket = connect_to({"no-such-host.invalid", 1}, in_ms(10));
  ASSERT_FALSE(socket.ok());
  EXPECT_TRUE(socket.error().message.starts_with("cannot resolve \"no-such-host.invalid\": "))
      << socket.error().message;
}

TEST(Socket, NamesAPortThatIsInUse) {
  Result<Socket> first = listen_on(0);
  const int port = port_of(*first);
  const Result<Socket> second = listen_on(port);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kInput);
  EXPECT_TRUE(second.error().message.starts_with(concat("cannot listen on port ", port, ": ")))
      << second.error().message;
}

}  // namespace
}  // namespace cadre::net
