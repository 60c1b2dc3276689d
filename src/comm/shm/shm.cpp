#include "comm/shm.h"

#include <utility>

#include "comm/shm/engine.h"

namespace cadre::comm {
namespace shm {
namespace {

// A flight that its Pending holds; one that is dropped before it is over has been given up.
class Ticket {
 public:
  Ticket(std::shared_ptr<Engine> engine, std::shared_ptr<Flight> flight)
      : engine_(std::move(engine)), flight_(std::move(flight)) {}
  ~Ticket() {
    if (!used_) {
      engine_->give_up(*flight_);
    }
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  int64_t wait() {
    engine_->wait(*flight_);
    used_ = true;
    return flight_->bytes_sent;
  }

 private:
  std::shared_ptr<Engine> engine_;  // owned by the host, the groups and the tickets of a rank
  std::shared_ptr<Flight> flight_;  // owned by the engine too, until it is over
  bool used_ = false;
};

class ShmCollective final : public Collective {
 public:
  ShmCollective(Position position, std::string_view name, std::shared_ptr<Engine> engine,
                Group group)
      : Collective(position, name), engine_(std::move(engine)), group_(std::move(group)) {}

 private:
  Pending start(Context& context, const Request& request) override {
    CADRE_CHECK(!context.is_meta(), "shm moves data; meta has none");
    // Shared only because std::function copies what it holds; the Pending is its one owner.
    const auto ticket =
        std::make_shared<Ticket>(engine_, engine_->start(group_, &context.threads, request));
    return Pending([this, ticket] { count_sent(ticket->wait()); });
  }

  std::unique_ptr<Collective> make_split(const Split& split) override {
    Group group{.number = 0, .rank = split.position.rank, .members = {}};
    for (const int member : split.members) {
      group.members.push_back(group_.members[static_cast<size_t>(member)]);
    }
    if (size() > 1) {
      const int64_t first = rank() == 0 ? engine_->take_groups(split.groups) : 0;
      const Request request{.operation = Operation::kBarrier,
                            .group = name(),
                            .sequence = split.sequence,
                            .counts = {split.groups}};
      const std::shared_ptr<Flight> flight = engine_->start(group_, nullptr, request, first);
      engine_->wait(*flight);
      group.number = flight->value + split.colour;
    }
    if (split.position.size == 1) {
      return make_recorded(split.position, split.name);
    }
    return std::make_unique<ShmCollective>(split.position, split.name, engine_, std::move(group));
  }

  std::shared_ptr<Engine> engine_;  // see Ticket
  Group group_;
};

class Host final : public ShmHost {
 public:
  Host(const ShmOptions& options, Shared shared)
      : position_(options.position),
        engine_(std::make_shared<Engine>(options, std::move(shared))) {}

  std::unique_ptr<Collective> world() override {
    Group group{.number = 0, .rank = position_.rank, .members = {}};
    for (int rank = 0; rank < position_.size; ++rank) {
      group.members.push_back(rank);
    }
    return std::make_unique<ShmCollective>(position_, std::string_view(), engine_,
                                           std::move(group));
  }

  MemorySource& memory() override { return engine_->memory(); }

 private:
  Position position_;
  std::shared_ptr<Engine> engine_;  // see Ticket
};

}  // namespace
}  // namespace shm

Result<std::unique_ptr<ShmHost>> ShmHost::join(const ShmOptions& options) {
  Result<shm::Shared> shared = shm::share(options);
  if (!shared) {
    return shared.error();
  }
  return std::unique_ptr<ShmHost>(std::make_unique<shm::Host>(options, std::move(*shared)));
}

}  // namespace cadre::comm
