// Requests to stop: Ctrl-C, SIGTERM and a closed terminal (SIGHUP) ask for a checkpoint and an
// orderly end. A second one of the same kind ends the process at once, as if nobody had listened.
// Meanwhile a reader of stdout that has gone is an error of writing, not the end of the process.

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
