// Every family that there is. Adding one: a file NAME.cpp that defines kNAME, a line here, a line
// in family.cpp, two lines in CMakeLists.txt (NAME.cpp and NAME_test.cpp).

#pragma once

#include "model/family.h"

namespace cadre::model {

extern const Family kLlama;
extern const Family kMistral;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kGpt2;

}  // namespace cadre::model
