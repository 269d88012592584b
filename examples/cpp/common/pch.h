// The examples' precompiled header: what is slow to read. Every file still includes what it uses.
#pragma once
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
