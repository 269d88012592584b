// Making random programs.
#pragma once
#include "fuzz/program.h"

namespace diptych::fuzz {

/// The program of this seed. Most run in eager without an error; some don't, on purpose. Some have a topic, or several;
/// all have `topic`, if it is one.
Program generate(uint64_t seed, Topic topic = Topic::kNone);

/// A program whose body is that of a loop or a branch.
Program generate_loop(uint64_t seed, Topic topic = Topic::kNone);

}  // namespace diptych::fuzz
