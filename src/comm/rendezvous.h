// How the ranks of a run find each other: all come to rank 0, prove that they belong to the run,
// and leave with what they must know of the others.

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/request.h"
#include "net/socket.h"

namespace cadre::comm {

struct RendezvousOptions {
  Position position;
  std::string host;        // of rank 0
  int port = 0;            // where rank 0 listens
  std::string token = {};  // a secret that all ranks have; empty: anybody is let in
  // Lines "key: value" that all ranks must have alike: the program's version, the configuration.
  std::string alike = {};
  int data_port = 0;  // where this rank listens for the others
  std::chrono::milliseconds timeout{600'000};
  std::function<void(const std::string& line)> log = [](const std::string&) {};
};

struct Peer {
  std::string machine;  // the same text for ranks that can share memory
  std::string address;  // as the other ranks reach it
  int data_port = 0;
};

struct Meeting {
  std::string session;  // another text for every run, the same on all ranks
  std::vector<Peer> ranks;
};

// Ends on all ranks with the same outcome: the meeting, or one error that says who is missing, who
// came twice, or in which line of `alike` a rank differs from rank 0 first. Errors of kInput are
// mistakes in how the run was started. Whoever cannot prove the token is dropped and logged.
Result<Meeting> rendezvous(const RendezvousOptions& options);

// Shows both ends of a connection that the other knows `secret`; `caller` differs at the two ends.
Status prove(const net::Socket& socket, const std::string& secret, bool caller,
             net::Deadline deadline);

// `bytes` random bytes, as twice as many hexadecimal digits.
std::string random_hex(size_t bytes);

// CADRE_TOKEN, or the content of the file CADRE_TOKEN_FILE, which only its owner may read; or "".
Result<std::string> read_token();

}  // namespace cadre::comm
