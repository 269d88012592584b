// Pairs made from graphs, and pairs in files: one program captures, another one runs and trains, in C++ or in Python.
#pragma once
#include <string>
#include <vector>

#include "diptych/graph/serialize.h"
#include "diptych/pair/pair.h"

namespace diptych {

/// Makes a pair of two graphs whose slots fit each other: those of a captured pair, perhaps rewritten since. Slots are
/// in the order of a capture: arguments before free variables; outputs, new values of inputs, residuals; residuals
/// before tangents; one gradient for each input, in order. A tensor that one graph hands to the other has one dtype and
/// the same sizes on both sides. `free_variables`: one per slot of that kind. Errors: UserError says which slots do not
/// fit.
Pair make_pair(Graph forward, Graph backward, std::vector<at::Tensor> free_variables = {});

/// Writes the graphs with their slots, and the values of the free variables, to one file, whole or not at all.
/// Parameters that are arguments are not saved; the caller saves them: see save_tensors().
/// Errors: UserError as save() of graphs.
void save(const Pair& pair, const std::string& path);

/// Reads what save() wrote. Ensures: the graphs and the signature are those that were saved.
/// Errors: UserError as load(), and for a file that holds no pair.
Pair load_pair(const std::string& path);

namespace detail {
/// Returns what save() puts into a file.
GraphFile file_of(const Pair& pair);
}  // namespace detail

}  // namespace diptych
