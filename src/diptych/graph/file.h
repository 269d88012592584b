// Reading a whole file, and writing one such that a crash leaves the old file in place.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

namespace diptych::detail {

/// Returns the bytes of a file. Errors: UserError with the path and the system's reason.
std::string read_file(const std::string& path);
/// Writes the parts to a temporary file beside `path`, makes sure that they are on the disk, and renames it to `path`.
/// Errors: UserError with the path and the system's reason; the temporary file is removed.
void write_file_atomically(const std::string& path, std::initializer_list<std::string_view> parts);

}  // namespace diptych::detail
