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

// Adds the messages to lists of computations. A send follows its computation at once. A receive is
// opened one computation before the one that reads it, so that the message travels while the rank
// computes; earlier only where an older message from the same rank would otherwise be overtaken.
void add_messages(Pipeline& pipeline);

}  // namespace cadre::schedule
