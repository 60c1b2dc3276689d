// The communicator of a rehearsal: messages are booked by Collective, and nothing else happens.
// One process can so rehearse any rank of any group, and a group of one needs nothing more.

#include <memory>

#include "comm/collective.h"

namespace cadre::comm {
namespace {

class RecordedCollective final : public Collective {
 public:
  using Collective::Collective;

 private:
  Pending start(Context& context, const Request& request) override {
    CADRE_CHECK(context.is_meta(), "recorded moves no data");
    count_sent(theoretical_bytes_sent(request, {.rank = rank(), .size = size()}));
    return {};
  }
  std::unique_ptr<Collective> make_split(const Split& split) override {
    return make_recorded(split.position, split.name);
  }
};

}  // namespace

std::unique_ptr<Collective> make_recorded(Position position, std::string_view name) {
  return std::make_unique<RecordedCollective>(position, name);
}

}  // namespace cadre::comm
