// The precompiled header of tests that include Torch's modules or optimizers: reading these takes a unit five seconds.
#pragma once
#include <torch/nn.h>
#include <torch/optim.h>

#include "pch.h"
