// Rows of text in aligned columns.
#pragma once
#include <string>
#include <vector>

namespace diptych::detail {

using TableRow = std::vector<std::string>;

/// One line for each row, two spaces between columns and none at the end of a line. `numbers`: the columns that are
/// aligned to the right. Requires: ASCII, and rows of one length.
std::string aligned_table(const std::vector<TableRow>& rows, const std::vector<size_t>& numbers);

/// "exp, 2 mul, sum": the operators of nodes, each once, without what says which overload is meant; cut where it gets
/// long.
std::string operator_list(const std::vector<std::string>& operators);

/// "512", "12.5 k", "3.1 M".
std::string count_text(int64_t count);

}  // namespace diptych::detail
