#include "train/signals.h"

#include <csignal>

#include "base/check.h"

namespace cadre::train {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A handler can reach nothing but a global of this type.
volatile std::sig_atomic_t stop_signal = 0;

void remember(int signal) {
  stop_signal = signal;
}

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  CADRE_CHECK(sigaction(signal, &action, nullptr) == 0, "signal ", signal);
}

}  // namespace

StopSignals::StopSignals() {
  stop_signal = 0;
  set_handler(SIGPIPE, SIG_IGN, 0);
  for (const int signal : kStopSignals) {
    // Back to the default after the first, so that a second one ends a process that hangs.
    set_handler(signal, remember, static_cast<int>(SA_RESETHAND) | SA_RESTART);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kStopSignals) {
    set_handler(signal, SIG_DFL, 0);
  }
  set_handler(SIGPIPE, SIG_DFL, 0);
}

int StopSignals::received() {
  return stop_signal;
}

}  // namespace cadre::train
