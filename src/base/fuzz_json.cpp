// Fuzzes the JSON reader: any bytes are refused, or give a value that reads back the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const cadre::Result<cadre::Json> json = cadre::parse_json(text, "fuzz");
  if (!json) {
    CADRE_CHECK(json.error().message.starts_with("fuzz"), json.error().message);
    return 0;
  }
  const std::string printed = json->dump();
  const cadre::Result<cadre::Json> again = cadre::parse_json(printed, "printed");
  CADRE_CHECK(again.ok() && *again == *json, printed);
  return 0;
}
