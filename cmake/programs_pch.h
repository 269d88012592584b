// The precompiled header of the examples and the benchmarks: what most of them read. Every file still includes what it
// uses.
#pragma once
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "diptych/diptych.h"
