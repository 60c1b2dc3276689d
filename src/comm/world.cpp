#include "comm/world.h"

#include <algorithm>

#include "comm/rendezvous.h"

namespace cadre::comm {

Result<World> join_world(const WorldOptions& options) {
  World world{.shared = nullptr, .heap = std::make_unique<HeapMemory>(), .group = nullptr};
  if (options.position.size == 1) {
    world.group = make_recorded({});
    return world;
  }
  const Result<Meeting> meeting = rendezvous({.position = options.position,
                                              .host = options.host,
                                              .port = options.port,
                                              .token = options.token,
                                              .alike = options.alike,
                                              .timeout = options.join_timeout,
                                              .log = options.log});
  if (!meeting) {
    return meeting.error();
  }
  const bool one_host = std::ranges::all_of(
      meeting->ranks, [&](const Peer& peer) { return peer.machine == meeting->ranks[0].machine; });
  if (!one_host) {
    return failure("rank ", options.position.rank,
                   ": the ranks are on several hosts, which this version cannot join yet");
  }
  Result<std::unique_ptr<ShmHost>> host = ShmHost::join({.position = options.position,
                                                         .address = "cadre-" + meeting->session,
                                                         .timeout = options.wait_timeout});
  if (!host) {
    return host.error();
  }
  world.shared = std::move(*host);
  world.group = world.shared->world();
  return world;
}

}  // namespace cadre::comm
