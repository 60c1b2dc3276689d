// Requests to stop: Ctrl-C and SIGTERM ask for a checkpoint and an orderly end. A second one of the
// same kind ends the process at once, as if nobody had listened.

#pragma once

namespace cadre::train {

// Listens while it lives. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, or 0.
  static int received();
};

}  // namespace cadre::train
