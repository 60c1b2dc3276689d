// docs/configuration.md, written from the schema.

#pragma once

#include <string>

namespace cadre {

std::string configuration_reference();

}  // namespace cadre
