// XLA's options of a compilation, in the form that PJRT takes.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace diptych::detail {

/// Returns a serialized CompileOptionsProto for one replica with a partition for each device; several partitions are
/// made from the shardings in the module's text. `platform` is the client's ("cpu"); `device_ids` are the plugin's.
/// XLA rounds where eager rounds, unless the environment variable DIPTYCH_XLA_FAST_MATH is 1.
std::string compile_options(std::string_view platform, std::span<const int> device_ids);

}  // namespace diptych::detail
