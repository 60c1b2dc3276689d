// The sends and receives of a pipeline, written from its computations.

#pragma once

#include <optional>
#include <vector>

#include "schedule/pipeline.h"

namespace cadre::schedule {

// What `instruction`, a computation, sends when it is done; nothing where the neighbouring stage is
// on the same rank, or where there is none.
std::optional<Instruction> sent_after(const Pipeline& pipeline, const Instruction& instruction);

// What must have been received before `instruction`, a computation, can run.
std::optional<Instruction> received_before(const Pipeline& pipeline,
                                           const Instruction& instruction);

// The receive that belongs to a send.
Instruction other_end(const Instruction& send);

// Adds the messages to lists of computations. A send follows its computation at once. The receives
// of the next three computations that read a message are always open: so messages travel while the
// rank computes, and the made schedules do not hang even where a send blocks until it has arrived.
// More are open only where an older message of the same rank would be overtaken.
void add_messages(Pipeline& pipeline);

}  // namespace cadre::schedule
