// libFuzzer: any bytes as a configuration. Seeds: examples/*.yaml.

#include <cstddef>
#include <cstdint>

#include "spec/hostile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cadre::check_any_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
