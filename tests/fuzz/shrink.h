// Making a failing program smaller.
#pragma once
#include <functional>

#include "fuzz/check.h"

namespace diptych::fuzz {

/// Drops and simplifies parts for as long as `judge` gives the same outcome with the same key.
Program shrink(Program program, const Verdict& verdict, const std::function<Verdict(const Program&)>& judge);

}  // namespace diptych::fuzz
