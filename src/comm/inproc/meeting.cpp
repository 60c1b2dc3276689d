#include "comm/inproc/meeting.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/check.h"
#include "base/step_error.h"
#include "comm/inproc/compute.h"

namespace cadre::comm {
namespace {

std::string differs(const Request& request) {
  if (request.is_message()) {
    return concat("the ranks differ in message ", request.sequence, " from one to the other");
  }
  return concat("the ranks differ in call ", request.sequence, " of their group");
}

// A send meets the receive of the same elements.
bool meet(const Request& a, const Request& b) {
  if (a.is_message()) {
    return a.dtype() == b.dtype() && a.elements() == b.elements();
  }
  return match(a, b);
}

}  // namespace

void Family::fail(const std::string& reason) {
  std::ostringstream out;
  out << reason;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    out << "; rank " << rank << (ranks[rank].has_ended() ? " has ended after " : " last called ");
    if (ranks[rank].last_call) {
      out << *ranks[rank].last_call;
    } else {
      out << "nothing";
    }
  }
  failure = out.str();
  changed.notify_all();
}

void Family::throw_if_failed() const {
  if (!failure.empty()) {
    throw StepError(failure);
  }
}

MeetingPlace::Key MeetingPlace::key_of(int rank, const Request& request) const {
  switch (request.operation) {
    case Operation::kSend:
      return {rank, request.peer, request.sequence};
    case Operation::kReceive:
      return {request.peer, rank, request.sequence};
    default:
      return {-1, -1, request.sequence};
  }
}

std::vector<int> MeetingPlace::expected_at(const Key& key) const {
  if (std::get<0>(key) >= 0) {
    return {std::get<0>(key), std::get<1>(key)};
  }
  std::vector<int> all;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    all.push_back(static_cast<int>(rank));
  }
  return all;
}

void MeetingPlace::arrive(int rank, const Request& request) {
  const std::lock_guard lock(family_->mutex);
  family_->throw_if_failed();
  state_of(rank).last_call = request;
  const Key key = key_of(rank, request);
  Meeting& meeting = meetings_[key];
  meeting.calls.resize(members_.size());
  meeting.expected = expected_at(key).size();
  for (const std::optional<Request>& other : meeting.calls) {
    if (other && !meet(*other, request)) {
      family_->fail(differs(request));
      family_->throw_if_failed();
    }
  }
  meeting.calls[static_cast<size_t>(rank)] = request;
  if (++meeting.arrived == meeting.expected) {
    meeting.bytes_sent = compute(meeting.calls);
    if (meeting.bytes_sent.empty()) {
      family_->fail(concat(differs(request), ": what is sent is not what is expected"));
      family_->throw_if_failed();
    }
    family_->changed.notify_all();
  }
}

int64_t MeetingPlace::leave(int rank, const Key& key) {
  std::unique_lock lock(family_->mutex);
  const auto is_complete = [&] { return meetings_.at(key).arrived == meetings_.at(key).expected; };
  const auto is_over = [&] {
    return !family_->failure.empty() || is_complete() || missing(key, true) >= 0;
  };
  const bool in_time = family_->changed.wait_for(lock, family_->timeout, is_over);
  if (family_->failure.empty() && !is_complete()) {
    const Request& call = *meetings_.at(key).calls[static_cast<size_t>(rank)];
    if (in_time) {
      family_->fail(concat(call, ": rank ", in_family(rank), " waits for rank ",
                           in_family(missing(key, true)), ", which has ended"));
    } else {
      family_->fail(concat(call, ": rank ", in_family(rank), " waited ", family_->timeout.count(),
                           " ms for rank ", in_family(missing(key, false))));
    }
  }
  // What was computed before the failure is whole, but the group's next call cannot be.
  family_->throw_if_failed();
  Meeting& meeting = meetings_.at(key);
  const int64_t bytes_sent = meeting.bytes_sent[static_cast<size_t>(rank)];
  if (++meeting.left == meeting.expected) {
    meetings_.erase(key);
  }
  return bytes_sent;
}

void MeetingPlace::give_up(int rank, const Key& key) {
  const std::lock_guard lock(family_->mutex);
  if (family_->failure.empty()) {
    family_->fail(concat("rank ", in_family(rank), " gave up waiting for call ", std::get<2>(key),
                         " of its group"));
  }
}

void MeetingPlace::end(int rank) {
  const std::lock_guard lock(family_->mutex);
  --state_of(rank).groups;
  family_->changed.notify_all();
}

std::shared_ptr<MeetingPlace> MeetingPlace::place_for(int rank, const Part& part) {
  const std::lock_guard lock(family_->mutex);
  std::vector<int> members;
  for (const int member : part.members) {
    members.push_back(in_family(member));
  }
  std::shared_ptr<MeetingPlace>& place = parts_[{part.split, part.colour}];
  if (place == nullptr) {
    place = std::make_shared<MeetingPlace>(family_, members);
  }
  CADRE_CHECK(place->members_ == members, "the ranks split their group in different ways");
  ++state_of(rank).groups;
  return place;
}

// The first rank that has not come, of all that are expected or of those that have ended; or -1.
int MeetingPlace::missing(const Key& key, bool ended) const {
  const Meeting& meeting = meetings_.at(key);
  for (const int rank : expected_at(key)) {
    if (!meeting.calls[static_cast<size_t>(rank)] && (!ended || state_of(rank).has_ended())) {
      return rank;
    }
  }
  return -1;
}

}  // namespace cadre::comm
