#include "comm/inproc.h"

#include <utility>

#include "comm/inproc/meeting.h"

namespace cadre::comm {
namespace {

// One rank's place in a call until it has left; who destroys it earlier has given up.
class Ticket {
 public:
  Ticket(std::shared_ptr<MeetingPlace> place, int rank, const Request& request)
      : place_(std::move(place)), rank_(rank), key_(place_->key_of(rank, request)) {
    place_->arrive(rank, request);
  }
  ~Ticket() {
    if (!used_) {
      place_->give_up(rank_, key_);
    }
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  int64_t leave() {
    used_ = true;
    return place_->leave(rank_, key_);
  }

 private:
  std::shared_ptr<MeetingPlace> place_;  // owned by members and tickets: any may be the last to end
  int rank_;
  MeetingPlace::Key key_;
  bool used_ = false;
};

class InprocCollective final : public Collective {
 public:
  InprocCollective(Position position, std::string_view name, std::shared_ptr<MeetingPlace> place)
      : Collective(position, name), place_(std::move(place)) {}
  ~InprocCollective() override { place_->end(rank()); }

 private:
  Pending start(Context& context, const Request& request) override {
    CADRE_CHECK(!context.is_meta(), "inproc moves data; meta has none");
    // Shared only because std::function copies what it holds; the Pending is its one owner.
    const auto ticket = std::make_shared<Ticket>(place_, rank(), request);
    return Pending([this, ticket] { count_sent(ticket->leave()); });
  }

  std::unique_ptr<Collective> make_split(const Split& split) override {
    const MeetingPlace::Part part{
        .split = splits_++, .colour = split.colour, .members = split.members};
    if (split.position.size == 1) {
      return make_recorded(split.position, split.name);
    }
    return std::make_unique<InprocCollective>(split.position, split.name,
                                              place_->place_for(rank(), part));
  }

  std::shared_ptr<MeetingPlace> place_;  // see Ticket
  int64_t splits_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_inproc(int size, std::chrono::milliseconds timeout) {
  CADRE_CHECK(size > 0, size, " ranks");
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(rank);
  }
  const auto place =
      std::make_shared<MeetingPlace>(std::make_shared<Family>(size, timeout), members);
  std::vector<std::unique_ptr<Collective>> ranks;
  ranks.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<InprocCollective>(Position{.rank = rank, .size = size},
                                                       std::string_view(), place));
  }
  return ranks;
}

}  // namespace cadre::comm
