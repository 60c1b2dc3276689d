#include "comm/rendezvous.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "base/sha256.h"

namespace cadre::comm {
namespace {

using net::Clock;
using net::Deadline;
using net::Socket;

constexpr std::chrono::seconds kProofTimeout{10};  // for a stranger to say something
constexpr size_t kTextBytesMax = size_t{16} << 20;
constexpr size_t kStrangersMax = 256;  // connections that have not proved anything yet

// Ranks with the same text can pass memory over an abstract socket.
std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  struct stat network {};
  static_cast<void>(stat("/proc/self/ns/net", &network));
  return concat(boot, "/", network.st_ino, "/", geteuid());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// "" if they are alike.
std::string first_difference(int rank, const std::string& own, const std::string& other) {
  const std::vector<std::string> ours = lines_of(own);
  const std::vector<std::string> theirs = lines_of(other);
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string a = i < ours.size() ? ours[i] : "nothing";
    const std::string b = i < theirs.size() ? theirs[i] : "nothing";
    if (a != b) {
      return concat("rank ", rank, " was started differently: it has \"", b, "\", rank 0 has \"", a,
                    "\"");
    }
  }
  return {};
}

Json hello_of(const RendezvousOptions& options) {
  return {{"rank", options.position.rank},
          {"size", options.position.size},
          {"machine", this_machine()},
          {"data_port", options.data_port},
          {"alike", options.alike}};
}

// Rank 0's side. Strangers are heard on threads of their own, so that one who says nothing holds up
// nobody.
class Reception {
 public:
  explicit Reception(const RendezvousOptions& options)
      : options_(options),
        deadline_(Clock::now() + options.timeout),
        meeting_{.session = random_hex(16), .ranks = {}},
        guests_(static_cast<size_t>(options.position.size)) {
    meeting_.ranks.resize(guests_.size());
    meeting_.ranks[0] = {
        .machine = this_machine(), .address = options.host, .data_port = options.data_port};
  }

  Result<Meeting> run() {
    Result<Socket> listener = net::listen_on(options_.port);
    if (!listener) {
      return Error{listener.error().kind, concat("rank 0: ", listener.error().message)};
    }
    {
      std::vector<std::jthread> threads;
      while (!is_over()) {
        const Deadline soon = std::min(deadline_, Clock::now() + std::chrono::milliseconds(50));
        Result<Socket> socket = net::accept_from(*listener, soon);
        if (socket && threads.size() < kStrangersMax + guests_.size()) {
          threads.emplace_back(
              [this, stranger = std::move(*socket)]() mutable { hear(std::move(stranger)); });
        } else if (Clock::now() >= deadline_) {
          fail(failure("rendezvous: rank 0 waited ", options_.timeout.count(), " ms for ",
                       missing(), "; are those processes alive, and do they reach ", options_.host,
                       ":", options_.port, "?"));
        }
      }
    }
    tell_all();
    return error_ ? Result<Meeting>(*error_) : Result<Meeting>(meeting_);
  }

 private:
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return error_ || joined_ == guests_.size() - 1;
  }

  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = error;
    }
  }

  std::string missing() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (size_t rank = 1; rank < guests_.size(); ++rank) {
      if (!guests_[rank].valid()) {
        text += concat(text.empty() ? "rank " : ", ", rank);
      }
    }
    return text;
  }

  void hear(Socket stranger) {
    const Deadline soon = std::min(deadline_, Clock::now() + kProofTimeout);
    const std::string from = net::peer_address(stranger);
    if (Status status = prove(stranger, options_.token, false, soon); !status) {
      options_.log(
          concat("rendezvous: dropped a connection from ", from, ": ", status.error().message));
      return;
    }
    const Result<std::string> text = net::receive_text(stranger, kTextBytesMax, soon);
    const Json hello = text ? Json::parse(*text, nullptr, false) : Json();
    if (!text || !hello.is_object()) {
      options_.log(concat("rendezvous: dropped a connection from ", from, ": ",
                          text ? "it did not say who it is" : text.error().message));
      return;
    }
    welcome(hello, from, std::move(stranger));
  }

  void welcome(const Json& hello, const std::string& from, Socket socket) {
    const int rank = hello.value("rank", -1);
    const int size = hello.value("size", -1);
    const std::string difference =
        first_difference(rank, options_.alike, hello.value("alike", std::string()));
    const std::lock_guard lock(mutex_);
    const auto refuse = [&](const std::string& why) {
      strangers_.push_back(std::move(socket));  // it is told as well
      if (!error_) {
        error_ = Error{ErrorKind::kInput, concat("rendezvous: ", why)};
      }
    };
    if (size != options_.position.size) {
      return refuse(concat("rank ", rank, " at ", from, " was started as one of ", size,
                           " ranks, rank 0 as one of ", options_.position.size));
    }
    if (rank < 1 || rank >= size) {
      return refuse(concat("a process at ", from, " says that it is rank ", rank, " of ", size,
                           rank == 0 ? ", as rank 0 does" : ""));
    }
    const auto index = static_cast<size_t>(rank);
    if (guests_[index].valid()) {
      return refuse(concat("two processes say that they are rank ", rank, ": one at ",
                           meeting_.ranks[index].address, " and one at ", from));
    }
    if (!difference.empty()) {
      return refuse(difference);
    }
    meeting_.ranks[index] = {.machine = hello.value("machine", std::string()),
                             .address = from,
                             .data_port = hello.value("data_port", 0)};
    guests_[index] = std::move(socket);
    ++joined_;
  }

  void tell_all() {
    Json answer;
    if (error_) {
      answer = {{"error", error_->message}, {"input", error_->kind == ErrorKind::kInput}};
    } else {
      answer = {{"session", meeting_.session}, {"ranks", Json::array()}};
      for (const Peer& peer : meeting_.ranks) {
        answer["ranks"].push_back({peer.machine, peer.address, peer.data_port});
      }
    }
    const Deadline soon = Clock::now() + kProofTimeout;
    const auto tell = [&](const Socket& guest) {
      if (guest.valid()) {
        // Who is gone by now will be missed by the others.
        static_cast<void>(net::send_text(guest, answer.dump(), soon).ok());
      }
    };
    std::ranges::for_each(guests_, tell);
    std::ranges::for_each(strangers_, tell);
  }

  const RendezvousOptions& options_;
  const Deadline deadline_;
  std::mutex mutex_;
  Meeting meeting_;
  std::vector<Socket> guests_;     // by rank
  std::vector<Socket> strangers_;  // who proved the token, and may not stay
  size_t joined_ = 0;
  std::optional<Error> error_;
};

Result<Meeting> visit(const RendezvousOptions& options) {
  const Deadline deadline = Clock::now() + options.timeout;
  const Result<Socket> socket =
      net::connect_to({.host = options.host, .port = options.port}, deadline);
  const auto wrong = [&](const Error& error) {
    return Error{error.kind, concat("rendezvous: rank ", options.position.rank, ": ", error.message,
                                    " (rank 0 at ", options.host, ":", options.port, ", waited ",
                                    options.timeout.count(), " ms at most)")};
  };
  if (!socket) {
    return wrong(socket.error());
  }
  if (Status status = prove(*socket, options.token, true, deadline); !status) {
    return wrong(status.error());
  }
  if (Status status = net::send_text(*socket, hello_of(options).dump(), deadline); !status) {
    return wrong(status.error());
  }
  // Rank 0 gives up at its own deadline, and says why.
  const Result<std::string> text =
      net::receive_text(*socket, kTextBytesMax, deadline + kProofTimeout);
  if (!text) {
    return wrong(text.error());
  }
  const Json answer = Json::parse(*text, nullptr, false);
  if (answer.is_object() && answer.contains("error")) {
    return Error{answer.value("input", false) ? ErrorKind::kInput : ErrorKind::kFailure,
                 answer.value("error", std::string())};
  }
  if (!answer.is_object() || !answer.contains("ranks")) {
    return wrong(failure("rank 0 answered something else than a meeting"));
  }
  Meeting meeting{.session = answer.value("session", std::string()), .ranks = {}};
  for (const Json& peer : answer["ranks"]) {
    meeting.ranks.push_back({.machine = peer.at(0).get<std::string>(),
                             .address = peer.at(1).get<std::string>(),
                             .data_port = peer.at(2).get<int>()});
  }
  if (static_cast<int>(meeting.ranks.size()) != options.position.size) {
    return wrong(failure("rank 0 answered with ", meeting.ranks.size(), " ranks"));
  }
  return meeting;
}

}  // namespace

std::string random_hex(size_t bytes) {
  std::string random(bytes, '\0');
  CADRE_CHECK(getrandom(random.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  return to_hex(random);
}

Status prove(const Socket& socket, const std::string& secret, bool caller, Deadline deadline) {
  const std::string own = random_hex(32);
  if (Status status = net::send_text(socket, own, deadline); !status) {
    return status;
  }
  const Result<std::string> other = net::receive_text(socket, 64, deadline);
  if (!other) {
    return other.error();
  }
  // Each end proves over both numbers and its side, so that no proof can be used a second time, and
  // none can be sent back to who made it.
  const auto proof = [&](bool of_caller) {
    const std::string& first = of_caller == caller ? own : *other;
    const std::string& second = of_caller == caller ? *other : own;
    return to_hex(
        hmac_sha256(secret, concat("cadre ", of_caller ? "caller " : "host ", first, " ", second)));
  };
  if (Status status = net::send_text(socket, proof(caller), deadline); !status) {
    return status;
  }
  const Result<std::string> shown = net::receive_text(socket, 64, deadline);
  if (!shown) {
    return failure(shown.error().message, "; do both ends have the same token?");
  }
  if (!equal_in_constant_time(sha256(*shown), sha256(proof(!caller)))) {
    return failure("the other end does not know the token of this run");
  }
  return {};
}

Result<Meeting> rendezvous(const RendezvousOptions& options) {
  return options.position.rank == 0 ? Reception(options).run() : visit(options);
}

Result<std::string> read_token() {
  if (const char* const token = std::getenv("CADRE_TOKEN")) {
    return std::string(token);
  }
  const char* const path = std::getenv("CADRE_TOKEN_FILE");
  if (path == nullptr) {
    return std::string();
  }
  struct stat status {};
  std::ifstream file(path);
  if (!file || stat(path, &status) != 0) {
    return input_error("CADRE_TOKEN_FILE: cannot read \"", path, "\"");
  }
  if ((status.st_mode & 077) != 0) {
    return input_error("CADRE_TOKEN_FILE: others than its owner may read \"", path,
                       "\"; chmod 600 it");
  }
  std::string token;
  std::getline(file, token);
  return token;
}

}  // namespace cadre::comm
